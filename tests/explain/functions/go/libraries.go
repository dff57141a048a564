package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"example.com/kit"
)

// A library keeps it.

var library = kit.NewCache(0)

var boundedLibrary = kit.NewCache(20)

func libraryCache() {
	number++
	body := make([]byte, size)
	library.Add(strconv.Itoa(number), body) // libraryCache
}

func libraryCacheRepaired() {
	number++
	body := make([]byte, size)
	boundedLibrary.Add(strconv.Itoa(number), body)
}

// A library starts the goroutine.

var group kit.Group

func libraryGoroutine() {
	answers := make(chan []byte)
	group.Go(func() { // libraryGoroutine
		answers <- make([]byte, size)
	})
}

func libraryGoroutineRepaired() {
	answers := make(chan []byte)
	group.Go(func() {
		answers <- make([]byte, size)
	})
	<-answers
}

// A library has listeners.

func listener() {
	body := make([]byte, size)
	kit.Listen("saved", func() { number += len(body) }) // listener
}

func listenerRepaired() {
	body := make([]byte, size)
	kit.Listen("saved", func() { number += len(body) })
	kit.Forget("saved")
}

// A cache for any type.

type cache[K comparable, V any] struct{ items map[K]V }

func (c *cache[K, V]) put(key K, value V) {
	if c.items == nil {
		c.items = map[K]V{}
	}
	c.items[key] = value // generic
}

var bodies cache[int, []byte]

func generic() {
	number++
	bodies.put(number, make([]byte, size))
}

func genericRepaired() {
	number++
	bodies.put(number%20, make([]byte, size))
}

// Jobs that nobody takes.

type job struct{ body []byte }

var queue = make(chan *job, 100_000)

func newJob() *job {
	return &job{make([]byte, size)}
}

func queued() {
	made := newJob()
	queue <- made // queued
}

func queuedRepaired() {
	made := newJob()
	queue <- made
	<-queue
}

// Expressions of what a request has.

var expressions = map[string]*regexp.Regexp{}

func compiled() {
	number++
	text := fmt.Sprintf("^(id|order)-%d-[a-z]{2,5}(x|y)*$", number)
	made := regexp.MustCompile(text)
	expressions[text] = made // compiled
}

func compiledRepaired() {
	number++
	text := fmt.Sprintf("^(id|order)-%d-[a-z]{2,5}(x|y)*$", number%10)
	if expressions[text] == nil {
		expressions[text] = regexp.MustCompile(text)
	}
}

// What is decoded goes into one list.

var decoded []map[string]string

func document() string {
	number++
	return fmt.Sprintf(`{"id": "%d", "body": "%s"}`, number, strings.Repeat("x", size))
}

func decode() {
	var one map[string]string
	if err := json.Unmarshal([]byte(document()), &one); err != nil {
		panic(err)
	}
	decoded = append(decoded, one) // decode
}

func decodeRepaired() {
	decoded = nil
	var one map[string]string
	if err := json.Unmarshal([]byte(document()), &one); err != nil {
		panic(err)
	}
	decoded = append(decoded, one)
}

// The begin of a body keeps all of it.

var heads [][]byte

func subslice() {
	body := make([]byte, size)
	head := body[:10]
	heads = append(heads, head) // subslice
}

func subsliceRepaired() {
	body := make([]byte, size)
	head := append([]byte{}, body[:10]...)
	if len(heads) < 100 {
		heads = append(heads, head)
	}
}

// A tree.

type node struct {
	key         int
	body        []byte
	left, right *node
}

func (n *node) insert(key int, body []byte) *node {
	if n == nil {
		return &node{key: key, body: body} // tree
	}
	if key < n.key {
		n.left = n.left.insert(key, body)
	} else {
		n.right = n.right.insert(key, body)
	}
	return n
}

var top *node

func tree() {
	number++
	top = top.insert(number*7919%10007, make([]byte, size))
}

func treeRepaired() {
	top = nil
	number++
	top = top.insert(number*7919%10007, make([]byte, size))
}

// A variable that a closure has.

func remembering(most int) func() {
	seen := map[int][]byte{}
	return func() {
		number++
		seen[number%most] = make([]byte, size) // captured
	}
}

var capturedUnbounded, capturedBounded = remembering(1_000_000), remembering(20)

func captured() { capturedUnbounded() }

func capturedRepaired() { capturedBounded() }

// Events of a bus.

type bus struct{ calls map[string][]func(string) }

func (b *bus) subscribe(topic string, call func(string)) func() {
	b.calls[topic] = append(b.calls[topic], call) // subscribed
	return func() { b.calls[topic] = nil }
}

var events = &bus{map[string][]func(string){}}

func subscribed() {
	body := make([]byte, size)
	events.subscribe("orders", func(text string) { number += len(body) + len(text) })
}

func subscribedRepaired() {
	body := make([]byte, size)
	done := events.subscribe("orders", func(text string) { number += len(body) + len(text) })
	done()
}

// A deadline of an hour.

func deadline() {
	ctx := context.WithValue(context.Background(), key{}, make([]byte, size))
	ctx, cancel := context.WithTimeout(ctx, time.Hour) // deadline
	if ctx.Err() != nil {
		cancel()
	}
}

func deadlineRepaired() {
	ctx := context.WithValue(context.Background(), key{}, make([]byte, size))
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	if ctx.Err() != nil {
		number++
	}
}

// Workers whose channel is not closed.

type pump struct {
	in   chan []byte
	last []byte
}

func (p *pump) run() {
	for body := range p.in {
		p.last = body
	}
}

func (p *pump) start() {
	go p.run() // pumped
}

func pumped() {
	p := &pump{in: make(chan []byte)}
	p.start()
	p.in <- make([]byte, size)
}

func pumpedRepaired() {
	p := &pump{in: make(chan []byte)}
	p.start()
	p.in <- make([]byte, size)
	close(p.in)
}

// A client each time: its connections stay open.

func clients() {
	client := &http.Client{Transport: &http.Transport{}}
	answer, err := client.Get(server()) // clients
	if err != nil {
		panic(err)
	}
	io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
}

func clientsRepaired() {
	transport := &http.Transport{}
	client := &http.Client{Transport: transport}
	answer, err := client.Get(server())
	if err != nil {
		panic(err)
	}
	io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	transport.CloseIdleConnections()
}

// A text that grows.

var report strings.Builder

func built() {
	fmt.Fprintf(&report, "%08d %s\n", number, strings.Repeat("x", size)) // built
}

func builtRepaired() {
	fmt.Fprintf(&report, "%08d %s\n", number, strings.Repeat("x", size))
	if report.Len() > 20*size {
		report.Reset()
	}
}

// Maps in a map.

var byUser = map[string]map[int][]byte{}

func nested() {
	number++
	user := "user-" + strconv.Itoa(number%3)
	if byUser[user] == nil {
		byUser[user] = map[int][]byte{}
	}
	byUser[user][number] = make([]byte, size) // nested
}

func nestedRepaired() {
	number++
	user := "user-" + strconv.Itoa(number%3)
	if byUser[user] == nil {
		byUser[user] = map[int][]byte{}
	}
	byUser[user][number%20] = make([]byte, size)
}

// Small things, many at once.

type price struct{ cents, at int64 }

var history = map[string][]*price{}

func small() {
	for at := 0; at < 200; at++ {
		number++
		one := &price{int64(number), int64(at)}
		name := "p" + strconv.Itoa(at%10)
		history[name] = append(history[name], one) // small
	}
}

func smallRepaired() {
	for at := 0; at < 200; at++ {
		number++
		one := &price{int64(number), int64(at)}
		name := "p" + strconv.Itoa(at%10)
		history[name] = append(history[name], one)
		if len(history[name]) > 50 {
			history[name] = append([]*price{}, history[name][25:]...)
		}
	}
}

// One in three requests fails, and is kept for another try.

var retries = map[int]*failure{}

func retried() {
	if number++; number%3 == 0 {
		why := &failure{make([]byte, 3*size), io.ErrUnexpectedEOF}
		retries[number] = why // retried
	}
}

func retriedRepaired() {
	if number++; number%3 == 0 {
		why := &failure{make([]byte, 3*size), io.ErrUnexpectedEOF}
		retries[number] = why
	}
	delete(retries, number-30)
}
