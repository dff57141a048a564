package main

type session struct{ started, requests, bytes int64 }

var sessions = map[int64]session{}
var events int

// Collects the sessions of a batch by their number, and empties the map. The 20th batch is a backlog.
func handler(event string) {
	events++
	batch := int64(300)
	if events == 20 {
		batch = 150_000
	}
	for number := int64(0); number < batch; number++ {
		sessions[number] = session{number, 1, 400}
	}
	for number := range sessions {
		delete(sessions, number)
	}
}
