package main

import "time"

var events int

// Fetches a resource for each event, with a deadline. One in four comes too late.
func handler(event string) {
	events++
	late := events%4 == 0
	resource := make(chan []byte, 1)
	go func() {
		body := make([]byte, 30000)
		if late {
			time.Sleep(4 * time.Millisecond)
		}
		copy(body, event)
		resource <- body
	}()
	select {
	case <-resource:
	case <-time.After(2 * time.Millisecond):
	}
}
