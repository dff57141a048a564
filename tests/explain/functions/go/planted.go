package main

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"planted/stock"
)

const size = 8000

var number int

// A goroutine that waits for an answer that nobody sends.

func ask(answers chan int) {
	body := make([]byte, size)
	body[0] = byte(<-answers)
}

func blocked() {
	number++
	answers := make(chan int)
	go ask(answers) // blocked
}

func blockedRepaired() {
	number++
	answers := make(chan int)
	go ask(answers)
	answers <- 1
}

// The slower of two answers is sent to a channel that nobody reads any more.

func slower() {
	found := make(chan []byte)
	for at := 0; at < 2; at++ {
		go func() { found <- make([]byte, size) }() // slower
	}
	<-found
}

func slowerRepaired() {
	found := make(chan []byte, 2)
	for at := 0; at < 2; at++ {
		go func() { found <- make([]byte, size) }()
	}
	<-found
}

// Timers of an hour, one for each step of a loop.

func after() {
	done := make(chan struct{}, 20)
	for at := 0; at < 20; at++ {
		done <- struct{}{}
		select {
		case <-done:
		case <-time.After(time.Hour): // after
		}
	}
}

func afterRepaired() {
	done := make(chan struct{}, 20)
	for at := 0; at < 20; at++ {
		done <- struct{}{}
		timer := time.NewTimer(time.Hour)
		select {
		case <-done:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// A callback that comes in an hour has the body.

func later() {
	body := make([]byte, size)
	time.AfterFunc(time.Hour, func() { number += len(body) }) // later
}

func laterRepaired() {
	body := make([]byte, size)
	timer := time.AfterFunc(time.Hour, func() { number += len(body) })
	timer.Stop()
}

// A ticker that is not stopped, and the goroutine that waits for it.

func ticker() {
	every := time.NewTicker(time.Hour)
	go func() { // ticker
		body := make([]byte, size)
		for range every.C {
			number += len(body)
		}
	}()
}

func tickerRepaired() {
	every := time.NewTicker(time.Hour)
	done := make(chan struct{})
	go func() {
		body := make([]byte, size)
		select {
		case <-every.C:
		case <-done:
		}
		number += len(body)
	}()
	every.Stop()
	done <- struct{}{}
}

// A map from what never comes again.

var answersByNumber = map[int][]byte{}

func unbounded() {
	number++
	body := make([]byte, size)
	answersByNumber[number] = body // unbounded
}

func unboundedRepaired() {
	number++
	body := make([]byte, size)
	answersByNumber[number%20] = body
}

// A slice that grows.

type order struct {
	id   int
	body []byte
}

var orders []*order

func newOrder() *order {
	number++
	return &order{id: number, body: make([]byte, size)}
}

func appended() {
	made := newOrder()
	orders = append(orders, made) // appended
}

func appendedRepaired() {
	made := newOrder()
	orders = append(orders, made)
	if len(orders) > 20 {
		orders = append([]*order{}, orders[1:]...)
	}
}

// Closures that are called at an end that does not come.

var atEnd []func()

func onEnd(call func()) {
	atEnd = append(atEnd, call) // closure
}

func closure() {
	body := make([]byte, size)
	onEnd(func() { number += len(body) })
}

func closureRepaired() {
	body := make([]byte, size)
	onEnd(func() { number += len(body) })
	for _, call := range atEnd {
		call()
	}
	atEnd = nil
}

// Contexts whose parent lives on.

type key struct{}

var root, stop = context.WithCancel(context.Background())

func contexts() {
	ctx := context.WithValue(root, key{}, make([]byte, size))
	ctx, cancel := context.WithCancel(ctx) // contexts
	if ctx.Err() != nil {
		cancel()
		stop()
	}
}

func contextsRepaired() {
	ctx := context.WithValue(root, key{}, make([]byte, size))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if ctx.Err() != nil {
		stop()
	}
}

// A part of a large string.

var names []string

func lines() string {
	number++
	return strings.Repeat(fmt.Sprintf("%08d,", number), size/9)
}

func substring() {
	text := lines()
	names = append(names, text[:8]) // substring
}

func substringRepaired() {
	text := lines()
	names = append(names, string([]byte(text[:8])))
}

// Answers whose bodies are not closed.

// server answers 404 with a body. By another name: connections to it are not those of the function's runtime.
func server() string {
	return "http://localhost" + strings.TrimLeft(os.Getenv("AWS_LAMBDA_RUNTIME_API"), "0123456789.") + "/2018-06-01/none"
}

func unclosed() {
	answer, err := http.Get(server()) // unclosed
	if err != nil {
		panic(err)
	}
	number += answer.StatusCode
}

func unclosedRepaired() {
	answer, err := http.Get(server())
	if err != nil {
		panic(err)
	}
	io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
}

// A list of errors, each with what was read.

type failure struct {
	read []byte
	why  error
}

func (f *failure) Error() string { return f.why.Error() }

type audit struct{ failures []error }

var audited = &audit{}

func (a *audit) note(why error) {
	a.failures = append(a.failures, why) // failures
}

func failures() {
	audited.note(&failure{make([]byte, size), errors.New("no such order")})
}

func failuresRepaired() {
	audited.note(&failure{make([]byte, size), errors.New("no such order")})
	if len(audited.failures) > 20 {
		audited.failures = nil
	}
}

// A chain of objects.

type link struct {
	next *link
	body []byte
}

var newest *link

func linked() {
	body := make([]byte, size)
	newest = &link{newest, body} // linked
}

func linkedRepaired() {
	body := make([]byte, size)
	newest = &link{nil, body}
}

// The last used, without an end.

var used = list.New()

func lastUsed() {
	body := make([]byte, size)
	used.PushFront(body) // lastUsed
}

func lastUsedRepaired() {
	body := make([]byte, size)
	used.PushFront(body)
	if used.Len() > 20 {
		used.Remove(used.Back())
	}
}

// A map for many goroutines.

var sessions sync.Map

func session() {
	number++
	sessions.Store(number, make([]byte, size)) // session
}

func sessionRepaired() {
	number++
	sessions.Store(number, make([]byte, size))
	sessions.Delete(number - 20)
}

// A pool that gives back what it has: nothing is kept for ever.

var pool = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func pooled() {
	buffer := pool.Get().(*bytes.Buffer)
	buffer.Write(make([]byte, 10*size)) // and is not reset
	if number++; number%3 > 0 {
		pool.Put(buffer)
	}
}

// A buffer that is never reset.

var logged bytes.Buffer

func buffer() {
	logged.Write(make([]byte, size)) // buffer
}

func bufferRepaired() {
	logged.Write(make([]byte, size))
	if logged.Len() > 20*size {
		logged = bytes.Buffer{}
	}
}

// Of another package of the module.

var store = stock.New()

func stored() {
	number++
	store.Put(number, make([]byte, size))
}

func storedRepaired() {
	number++
	store.Put(number%20, make([]byte, size))
}

// Each item of a fixed map has a list.

var byDay = map[string][][]byte{"mon": nil, "tue": nil, "wed": nil}

func days() {
	body := make([]byte, size)
	for _, day := range []string{"mon", "tue"} {
		if number++; number%2 > 0 {
			byDay[day] = append(byDay[day], body) // days
		}
	}
}

func daysRepaired() {
	body := make([]byte, size)
	for _, day := range []string{"mon", "tue"} {
		if number++; number%2 > 0 {
			byDay[day] = append(byDay[day], body)
		}
		if len(byDay[day]) > 10 {
			byDay[day] = nil
		}
	}
}

// A worker that takes from a channel, and keeps what it has taken in a variable of its own.

var jobs = make(chan []byte)

var begin sync.Once

func work(limit int) {
	taken := make([][]byte, 0, 4)
	for job := range jobs {
		taken = append(taken, job) // worker
		if len(taken) > limit {
			taken = taken[:0:0]
		}
	}
}

func worker() {
	begin.Do(func() { go work(1_000_000) })
	jobs <- make([]byte, size)
}

func workerRepaired() {
	begin.Do(func() { go work(20) })
	jobs <- make([]byte, size)
}

// A mutex that a goroutine never gets.

var lock sync.Mutex

func locked() {
	lock.TryLock()
	go func() { // locked
		body := make([]byte, size)
		lock.Lock()
		number += len(body)
	}()
}

func lockedRepaired() {
	done := make(chan struct{})
	go func() {
		body := make([]byte, size)
		lock.Lock()
		number += len(body)
		lock.Unlock()
		close(done)
	}()
	<-done
}

func init() {
	handlers = map[string]func(){
		"helper":                   helper,
		"helperRepaired":           helperRepaired,
		"collected":                collected,
		"collectedRepaired":        collectedRepaired,
		"everywhere":               everywhere,
		"everywhereRepaired":       everywhereRepaired,
		"blocked":                  blocked,
		"blockedRepaired":          blockedRepaired,
		"slower":                   slower,
		"slowerRepaired":           slowerRepaired,
		"after":                    after,
		"afterRepaired":            afterRepaired,
		"later":                    later,
		"laterRepaired":            laterRepaired,
		"ticker":                   ticker,
		"tickerRepaired":           tickerRepaired,
		"unbounded":                unbounded,
		"unboundedRepaired":        unboundedRepaired,
		"appended":                 appended,
		"appendedRepaired":         appendedRepaired,
		"closure":                  closure,
		"closureRepaired":          closureRepaired,
		"contexts":                 contexts,
		"contextsRepaired":         contextsRepaired,
		"substring":                substring,
		"substringRepaired":        substringRepaired,
		"unclosed":                 unclosed,
		"unclosedRepaired":         unclosedRepaired,
		"failures":                 failures,
		"failuresRepaired":         failuresRepaired,
		"linked":                   linked,
		"linkedRepaired":           linkedRepaired,
		"lastUsed":                 lastUsed,
		"lastUsedRepaired":         lastUsedRepaired,
		"session":                  session,
		"sessionRepaired":          sessionRepaired,
		"pooled":                   pooled,
		"buffer":                   buffer,
		"bufferRepaired":           bufferRepaired,
		"stored":                   stored,
		"storedRepaired":           storedRepaired,
		"days":                     days,
		"daysRepaired":             daysRepaired,
		"worker":                   worker,
		"workerRepaired":           workerRepaired,
		"locked":                   locked,
		"lockedRepaired":           lockedRepaired,
		"libraryCache":             libraryCache,
		"libraryCacheRepaired":     libraryCacheRepaired,
		"libraryGoroutine":         libraryGoroutine,
		"libraryGoroutineRepaired": libraryGoroutineRepaired,
		"listener":                 listener,
		"listenerRepaired":         listenerRepaired,
		"generic":                  generic,
		"genericRepaired":          genericRepaired,
		"queued":                   queued,
		"queuedRepaired":           queuedRepaired,
		"compiled":                 compiled,
		"compiledRepaired":         compiledRepaired,
		"decode":                   decode,
		"decodeRepaired":           decodeRepaired,
		"subslice":                 subslice,
		"subsliceRepaired":         subsliceRepaired,
		"tree":                     tree,
		"treeRepaired":             treeRepaired,
		"captured":                 captured,
		"capturedRepaired":         capturedRepaired,
		"subscribed":               subscribed,
		"subscribedRepaired":       subscribedRepaired,
		"deadline":                 deadline,
		"deadlineRepaired":         deadlineRepaired,
		"pumped":                   pumped,
		"pumpedRepaired":           pumpedRepaired,
		"clients":                  clients,
		"clientsRepaired":          clientsRepaired,
		"built":                    built,
		"builtRepaired":            builtRepaired,
		"nested":                   nested,
		"nestedRepaired":           nestedRepaired,
		"small":                    small,
		"smallRepaired":            smallRepaired,
		"retried":                  retried,
		"retriedRepaired":          retriedRepaired,
	}
}
