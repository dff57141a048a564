// Package truemem adds the heap of a Go function to truemem's line. It is one file, without dependencies, for Go 1.19
// or newer: copy it into your module.
//
//	func handler(ctx context.Context, event Event) (Answer, error) {
//		if called, ok := lambdacontext.FromContext(ctx); ok {
//			defer truemem.Note(called.AwsRequestID)
//		}
//		...
//	}
//
// Note takes a reading and writes it into a page that truemem's sidecar reads. The page's format is on truemem's page
// "The heap page". Outside Lambda it does nothing. Its errors do not reach the function.
package truemem

import (
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	page = 4096
	slot = 256 // bytes for each reading, by turns: truemem may look for one after later ones were written
)

var (
	lock   sync.Mutex
	file   *os.File
	number int
	figure = []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, // used, those included that the collector has not freed yet
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, // kept, and not yet returned to the system
		{Name: "/gc/heap/live:bytes"},             // since Go 1.21
		{Name: "/gc/cycles/total:gc-cycles"},
	}
)

// Note notes the heap for the invocation with this request id, which is about to end. It takes some µs, and does not
// stop the program's other goroutines.
func Note(requestID string) {
	if os.Getenv("AWS_LAMBDA_RUNTIME_API") == "" || requestID == "" || strings.ContainsAny(requestID, " \n") {
		return
	}
	lock.Lock()
	defer lock.Unlock()
	number++
	text := fmt.Sprintf("truemem-heap-3 %d %s %d go%s %d\n", number, requestID, time.Now().UnixMilli(), figures(), number)
	if len(text) <= slot && opened() {
		_, _ = file.WriteAt([]byte(text), int64(number*slot%page))
	}
}

func figures() string {
	metrics.Read(figure)
	objects, unused, free, live, cycles := value(0), value(1), value(2), value(3), value(4)
	text := fmt.Sprintf(" used=%d committed=%d collections=%d", objects>>10, (objects+unused+free)>>10, cycles)
	if live > 0 && cycles > 0 {
		text += fmt.Sprintf(" live=%d", live>>10)
	}
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 { // GOMEMLIMIT; -1 only asks
		text += fmt.Sprintf(" limit=%d", limit>>10)
	}
	return text
}

// value is 0 for a figure that this version of Go does not have.
func value(at int) uint64 {
	if figure[at].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return figure[at].Value.Uint64()
}

// opened makes the page, if it is not there or was removed. It follows no link, and no other user can read it.
func opened() bool {
	if file != nil {
		about, err := file.Stat()
		if err == nil && about.Sys().(*syscall.Stat_t).Nlink > 0 {
			return true
		}
		_ = file.Close()
		file = nil
	}
	folder := "/tmp"
	if tmp := os.Getenv("TMPDIR"); strings.HasPrefix(tmp, "/tmp/") && !strings.Contains(tmp, "..") {
		folder = strings.TrimRight(tmp, "/")
	}
	path := fmt.Sprintf("%s/.truemem-heap-%d", folder, os.Getpid())
	_ = os.Remove(path) // of an earlier process with this pid
	made, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return false
	}
	if made.Truncate(page) != nil {
		_ = made.Close()
		return false
	}
	file = made
	return true
}
