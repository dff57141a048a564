package main

import (
	"context"
	"time"
)

var root, stop = context.WithCancel(context.Background())

// Runs a call with a context of its own, which is cancelled if it takes longer than the limit.
func within(limit time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithCancel(root)
	timer := time.AfterFunc(limit, cancel)
	defer cancel()
	defer timer.Stop()
	return call(ctx)
}

// Makes 30 calls for each event, none of which takes long.
func handler(event string) {
	for call := 0; call < 30; call++ {
		if err := within(5*time.Second, func(ctx context.Context) error { return ctx.Err() }); err != nil {
			stop()
		}
	}
}
