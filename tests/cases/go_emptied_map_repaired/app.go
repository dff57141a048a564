package main

type session struct{ started, requests, bytes int64 }

var events int

// Collects the sessions of a batch by their number, in a map of its own. The 20th batch is a backlog.
func handler(event string) {
	events++
	batch := int64(300)
	if events == 20 {
		batch = 150_000
	}
	sessions := map[int64]session{}
	for number := int64(0); number < batch; number++ {
		sessions[number] = session{number, 1, 400}
	}
	for number := range sessions {
		delete(sessions, number)
	}
}
