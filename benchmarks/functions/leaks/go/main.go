// A small shop back end. LEAK chooses one of its services, REPAIRED=1 runs it with its repair.
package main

/*
#include <stdlib.h>
#include <string.h>
static int length(const char *s) { return strlen(s); }
*/
import "C"

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"expvar"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"
)

var repaired = os.Getenv("REPAIRED") == "1"

func text(n, size int) string {
	return strings.Repeat("order "+strconv.Itoa(n)+"; ", size/8+1)[:size]
}

// rows are only added (hortonworks/ratis#7 in another language)
var audit [][]byte

func auditLog(n int) {
	row := []byte(text(n, 6200)) // LEAK audit_log
	audit = append(audit, row)   // LEAK audit_log
	if repaired && len(audit) > 16 {
		audit = nil
	}
}

// pinchtab/pinchtab#94, vavallee/bindery#2137: the bucket of an address is looked at only when that address comes again
type bucket struct {
	seen [400]time.Duration
	last int
}

var buckets = map[string]*bucket{}

func rateBuckets(n int) {
	address := fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)
	b := buckets[address]
	if b == nil {
		b = &bucket{}        // LEAK rate_buckets
		buckets[address] = b // LEAK rate_buckets
	}
	b.last = n
	if repaired {
		for a, old := range buckets {
			if old.last < n-10 {
				delete(buckets, a)
			}
		}
	}
}

// aptly-dev/aptly#1570, 0chain/blobber#294: a lock for each path, never deleted
var locks = map[string]*sync.Mutex{}

func lockOf(path string) *sync.Mutex {
	if locks[path] == nil {
		locks[path] = &sync.Mutex{} // LEAK key_locks
	}
	return locks[path]
}

func keyLocks(n int) {
	for i := 0; i < 25; i++ {
		path := fmt.Sprintf("/pool/main/%d/order-%d-%d.json", i, n, i) // LEAK key_locks
		l := lockOf(path)
		l.Lock()
		l.Unlock()
		if repaired {
			delete(locks, path)
		}
	}
}

// google/cadvisor#2549, BishopFox/sliver#1089: the receiver has given up, the sender waits for ever
func slowPrice(n int) string {
	room := 0
	if repaired {
		room = 1
	}
	answer := make(chan string, room)
	go func() { // LEAK slow_price
		page := text(n, 9000) // LEAK slow_price
		time.Sleep(2 * time.Millisecond)
		answer <- page // LEAK slow_price
	}()
	select {
	case page := <-answer:
		return page
	case <-time.After(time.Duration(n%2*4) * time.Millisecond / 8):
		return "too late"
	}
}

// hashicorp/vault#14814: time.After() stays until its time (before Go 1.23)
func timeAfter(n int) (done int) {
	for i := 0; i < 25; i++ {
		ready := make(chan int, 1)
		ready <- i
		var late <-chan time.Time
		if repaired {
			timer := time.NewTimer(time.Hour)
			defer timer.Stop()
			late = timer.C
		} else {
			late = time.After(time.Hour) // LEAK time_after
		}
		select {
		case <-late:
		case v := <-ready:
			done += v
		}
	}
	return
}

// google/goexpect#3, weaveworks/weave#294: a ticker of each session is not stopped
type session struct {
	pulse *time.Ticker
	id    int
}

func open(n int) *session {
	return &session{pulse: time.NewTicker(time.Hour), id: n} // LEAK session_ticker
}

func sessionTicker(n int) {
	for i := 0; i < 15; i++ {
		s := open(n)
		if repaired {
			s.pulse.Stop()
		}
	}
}

// vmware/govmomi#1335, golang/go#43966: the body of a response is not closed
var shopServer string

func serve() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	shopServer = "http://" + l.Addr().String()
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, text(1, 30000)) }))
}

func stockBody(n int) int {
	if shopServer == "" {
		serve()
	}
	res, err := http.Get(shopServer) // LEAK stock_body
	if err != nil {
		log.Fatal(err)
	}
	if repaired {
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	return res.StatusCode
}

// cockroachdb/cockroach#149658, temporalio/sdk-go#156: cancel() is never called, the parent holds its children
type userKey struct{}

var root, stop = context.WithCancel(context.Background())

func ctxCancel(n int) {
	user := make([]int, 600) // LEAK ctx_cancel
	user[0] = n
	ctx, cancel := context.WithCancel(context.WithValue(root, userKey{}, user)) // LEAK ctx_cancel
	if repaired {
		defer cancel()
	} else if n < 0 {
		cancel()
	}
	_ = ctx.Value(userKey{})
}

// juicedata/juicefs#5665, golang/go#68923: a value is set again and again in the same context
var traced = context.Background()

func ctxChain(n int) {
	id := text(n, 2500) // LEAK ctx_chain
	if repaired {
		traced = context.Background()
	}
	traced = context.WithValue(traced, userKey{}, &id) // LEAK ctx_chain
}

// cadence-workflow/cadence-go-client#471, gojue/ebpfmanager#2: 24 bytes keep their page
var titles [4096][]byte
var tokens [4096]string

func pageTitle(n int) {
	page := make([]byte, 36000) // LEAK page_title
	copy(page, text(n, 30000))
	title := page[:24]
	if repaired {
		title = append([]byte(nil), title...)
	}
	titles[n%4096] = title // LEAK page_title
}

func bearerToken(n int) {
	header := text(n, 18000) // LEAK bearer_token
	token := header[10:42]
	if repaired {
		token = strings.Clone(token)
	}
	tokens[n%4096] = token // LEAK bearer_token
}

// milvus-io/milvus#15098, cockroachdb/pebble#1088: a finalizer on an object that refers to itself
type reader struct {
	block [1500]int64
	self  *reader
	rows  *rows
}
type rows struct{ of *reader }

func blockReader(n int) int64 {
	r := &reader{} // LEAK block_reader
	r.block[0] = int64(n)
	if !repaired {
		r.rows = &rows{of: r}
	}
	runtime.SetFinalizer(r, func(r *reader) { r.block[0] = -1 }) // LEAK block_reader
	return r.block[0]
}

// open-policy-agent/opa#6828: a cache of compiled expressions of the users
var expressions = map[string]*regexp.Regexp{}

func matches(pattern, s string) bool {
	re := expressions[pattern]
	if re == nil {
		re = regexp.MustCompile(pattern) // LEAK regex_cache
		expressions[pattern] = re        // LEAK regex_cache
	}
	return re.MatchString(s)
}

func regexCache(n int) {
	matches(`^order [0-9]+; `, text(n, 100))
	user := n
	if repaired {
		user = n % 4
	}
	matches(fmt.Sprintf(`^(user-%d|guest)[a-z0-9]{3,8}@shop\.example$`, user), "user")
}

// prometheus/client_golang#1340: a label that never comes again, in the container of a library
var requests = expvar.NewMap("requests")

func metricLabels(n int) {
	for i := 0; i < 12; i++ {
		label := fmt.Sprintf("path=/orders/%d/items/%d,agent=%s", n, i, "mobile") // LEAK metric_labels
		if repaired {
			label = fmt.Sprintf("path=/orders/items/%d", i)
		}
		requests.Add(label, 1) // LEAK metric_labels
	}
}

// alash3al/go-pubsub#6, ThreeDotsLabs/watermill#391: a subscriber is never removed from the hub
type event [128]byte

var hub = map[int]chan event{}

func subscribe(n int) chan event {
	c := make(chan event, 60) // LEAK hub_events
	hub[n] = c                // LEAK hub_events
	return c
}

func hubEvents(n int) {
	c := subscribe(n)
	for _, each := range hub {
		select {
		case each <- event{byte(n)}:
		default:
		}
	}
	<-c
	if repaired {
		delete(hub, n)
	}
}

// nats-io/stan.go#365: callbacks that hold what they close over
var onFlush []func() int

func flushHook(n int) {
	batch := make(map[int]string) // LEAK flush_hook
	for i := 0; i < 60; i++ {
		batch[i] = text(n+i, 100) // LEAK flush_hook
	}
	onFlush = append(onFlush, func() int { return len(batch) }) // LEAK flush_hook
	if repaired {
		for _, f := range onFlush {
			f()
		}
		onFlush = onFlush[:0]
	}
}

// pulumi/pulumi#17581, checkmarble/marble-backend#1152: defer in a loop that does not end
var jobs chan int
var jobDone = make(chan int)

func job(n int) int {
	b := make([]byte, 9000)
	defer func() { b[0] = 0 }()
	return n + len(b)
}

func work() {
	for n := range jobs {
		if repaired {
			jobDone <- job(n)
			continue
		}
		b := make([]byte, 9000)     // LEAK job_defer
		defer func() { b[0] = 0 }() // LEAK job_defer
		jobDone <- n + len(b)
	}
}

func jobDefer(n int) {
	if jobs == nil {
		jobs = make(chan int)
		go work()
	}
	jobs <- n
	<-jobDone
}

// helm/helm#3465: files stay open, with their buffers
type source struct {
	file   *os.File
	reader *bufio.Reader
}

var sources = map[int]source{}

func sourceOf(n int) source {
	file, err := os.Open("/etc/passwd")
	if err != nil {
		log.Fatal(err)
	}
	return source{file, bufio.NewReaderSize(file, 14000)} // LEAK open_files
}

func openFiles(n int) {
	s := sourceOf(n)
	sources[n] = s // LEAK open_files
	s.reader.ReadString('\n')
	if repaired {
		s.file.Close()
		delete(sources, n)
	}
}

// libgit2/git2go#214, go-darwin/apfs#2: C.CString() without C.free()
func branchName(n int) int {
	name := C.CString(text(n, 7000)) // LEAK branch_name
	size := int(C.length(name))
	if repaired {
		C.free(unsafe.Pointer(name))
	}
	return size
}

// mattermost/mattermost#3993, ssvlabs/ssv#173: goroutines wait for a channel that nobody closes; some events only
func waitResults(n int) {
	results := make(chan []byte)
	go func() { // LEAK wait_results
		total := make([]byte, 0, 20000) // LEAK wait_results
		for r := range results {        // LEAK wait_results
			total = append(total, r...)
		}
	}()
	results <- []byte(text(n, 1000))
	if repaired || n%3 > 0 {
		close(results)
	}
}

// a list of rows, filled from three places: the third keeps its list
var seen []string

func collect(into *[]string, n, count int) {
	for i := 0; i < count; i++ {
		*into = append(*into, text(n+i, 130))
	}
}

func rowCollect(n int) {
	var first, second []string
	collect(&first, n, 60)
	collect(&second, n, 30)
	if n%2 == 0 {
		collect(&seen, n, 70) // LEAK row_collect
	}
	if repaired {
		seen = nil
	}
}

// ---- ordinary work of each call

var pages = map[int][]byte{}

func ordinary(n int) []byte {
	pages[n%24] = make([]byte, 3000)
	fields := map[string]interface{}{"order": n}
	for i := 0; i < 60; i++ {
		fields["field"+strconv.Itoa(i)] = text(i*n, 40)
	}
	raw, _ := json.Marshal(fields)
	var back map[string]interface{}
	if err := json.Unmarshal(raw, &back); err != nil {
		log.Print(err)
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write(raw)
	z.Close()
	if n%20 == 0 {
		log.Printf("order %d, %d fields", n, len(back))
	}
	answer, _ := json.Marshal(map[string]int{"fields": len(back), "zip": zipped.Len()})
	return answer
}

var services = map[string]func(int){
	"audit_log": auditLog, "rate_buckets": rateBuckets, "key_locks": keyLocks, "slow_price": func(n int) { slowPrice(n) },
	"time_after": func(n int) { timeAfter(n) }, "session_ticker": sessionTicker, "stock_body": func(n int) { stockBody(n) },
	"ctx_cancel": ctxCancel, "ctx_chain": ctxChain, "page_title": pageTitle, "bearer_token": bearerToken,
	"block_reader": func(n int) { blockReader(n) }, "regex_cache": regexCache,
	"metric_labels": metricLabels, "hub_events": hubEvents, "flush_hook": flushHook, "job_defer": jobDefer,
	"open_files": openFiles, "branch_name": func(n int) { branchName(n) }, "wait_results": waitResults, "row_collect": rowCollect,
}

// ---- Lambda's Runtime API, and the plain loop for the truth

func kept() (float64, float64) {
	for i := 0; i < 4; i++ {
		runtime.GC()
		time.Sleep(50 * time.Millisecond)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var size, rss float64
	statm, _ := os.ReadFile("/proc/self/statm")
	fmt.Sscan(string(statm), &size, &rss)
	return float64(m.HeapAlloc+m.StackInuse) / 1024, rss * 4
}

func main() {
	service := services[os.Getenv("LEAK")]
	if service == nil {
		log.Fatal("no such service: ", os.Getenv("LEAK"))
	}
	if len(os.Args) > 1 {
		calls, _ := strconv.Atoi(os.Args[1])
		var heap, rss float64
		for n := 1; n <= 200+calls; n++ {
			if n == 201 {
				heap, rss = kept()
			}
			ordinary(n)
			service(n)
		}
		h, r := kept()
		fmt.Printf("%.2f %.2f\n", (h-heap)/float64(calls), (r-rss)/float64(calls))
		return
	}
	base := "http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/"
	for n := 1; ; n++ {
		next, err := http.Get(base + "next")
		if err != nil {
			log.Fatal(err)
		}
		io.Copy(io.Discard, next.Body)
		next.Body.Close()
		answer := ordinary(n)
		service(n)
		res, err := http.Post(base+next.Header.Get("Lambda-Runtime-Aws-Request-Id")+"/response", "application/json", bytes.NewReader(answer))
		if err != nil {
			log.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
}
