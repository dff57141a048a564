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
// "The heap page". From the first one on, a goroutine waits for the sidecar, which asks near the memory limit what the
// program runs. Outside Lambda it does nothing. Its errors do not reach the function.
package truemem

import (
	"fmt"
	"math"
	"os"
	"path"
	"runtime"
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
	asked  *os.File
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
		if asked != nil {
			_ = asked.Close() // ends its goroutine
		}
		file, asked = nil, nil
	}
	folder := "/tmp"
	if tmp := os.Getenv("TMPDIR"); strings.HasPrefix(tmp, "/tmp/") && !strings.Contains(tmp, "..") {
		folder = strings.TrimRight(tmp, "/")
	}
	made := newFile(folder, "heap")
	if made == nil {
		return false
	}
	file = made
	listen(folder)
	return true
}

// newFile has one page, and no other user can read it. It is nil where that cannot be made.
func newFile(folder, kind string) *os.File {
	name := fmt.Sprintf("%s/.truemem-%s-%d", folder, kind, os.Getpid())
	_ = os.Remove(name) // of an earlier process with this pid
	made, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil
	}
	if made.Truncate(page) != nil {
		_ = made.Close()
		return nil
	}
	return made
}

// listen makes the FIFO by which truemem asks. Go's poller waits for it, no thread does: nothing wakes up until then.
func listen(folder string) {
	name := fmt.Sprintf("%s/.truemem-ask-%d", folder, os.Getpid())
	_ = os.Remove(name)
	if syscall.Mkfifo(name, 0o600) != nil {
		return
	}
	made, err := os.OpenFile(name, os.O_RDWR|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	about, err := made.Stat()
	answers := newFile(folder, "running")
	if err != nil || about.Mode()&os.ModeNamedPipe == 0 || answers == nil || made.SetReadDeadline(time.Time{}) != nil {
		_ = made.Close() // without the poller a thread would wait
		return
	}
	asked = made
	go answer(made, answers)
}

const (
	mostGoroutines = 256
	moments        = 5
	gap            = 20 * time.Microsecond
)

// answer writes what runs, each time that it is asked: a running number, ms since 1970, how often it was in Go's
// allocator, the frames, and the number again.
func answer(asked, answers *os.File) {
	question := make([]byte, 512)
	text := make([]byte, 0, page)
	stacks := make([]runtime.StackRecord, mostGoroutines)
	root := library()
	for number := 1; ; number++ {
		if _, err := asked.Read(question); err != nil {
			_ = answers.Close()
			return
		}
		now := time.Now().UnixMilli()
		frames, allocated := running(stacks, root)
		text = append(text[:0], fmt.Sprintf("truemem-stacks-go-1 %d %d %d\n", number, now, allocated)...)
		end := fmt.Sprintf("%d\n", number)
		for _, frame := range frames {
			if len(text)+len(frame)+len(end) > page {
				break
			}
			text = append(text, frame...)
		}
		text = append(text, end...)
		for len(text) < page {
			text = append(text, 0)
		}
		_, _ = answers.WriteAt(text, 0)
	}
}

// running has the frames of the goroutine that alone could run at several moments, if it was in the same function of
// the program's own code at all of them, and at all but one in the allocator, or with page faults since the moment
// before. The line is 0 if it was at several. And it says at how many it was in the allocator.
func running(stacks []runtime.StackRecord, root string) (frames []string, allocated int) {
	var before int64
	quiet := 0
	certain, sameLine := true, true
	for moment := 0; moment < moments && certain; moment++ {
		if moment > 0 {
			time.Sleep(gap)
		}
		now := pageFaults()
		count, ok := runtime.GoroutineProfile(stacks)
		if !ok { // too many
			return nil, 0
		}
		found, takes := alone(stacks[:count], root)
		if moment > 0 {
			if !takes && now <= before {
				quiet++
			}
			certain = quiet <= 1 && function(own(found)) == function(own(frames))
			sameLine = sameLine && own(found) == own(frames)
		}
		if takes {
			allocated++
		}
		certain = certain && len(found) > 0
		frames, before = found, pageFaults()
	}
	if !certain {
		return nil, 0
	}
	if !sameLine {
		frames = []string{"+ 0 " + function(own(frames)) + "\n"}
	}
	return frames, allocated
}

// function is a frame without its line.
func function(frame string) string {
	_, named, _ := strings.Cut(strings.TrimLeft(strings.TrimSpace(frame), "+- "), " ")
	return named
}

func pageFaults() int64 {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return int64(used.Minflt + used.Majflt)
}

// own is the innermost of the program's own frames, or the innermost.
func own(frames []string) string {
	for _, frame := range frames {
		if frame[0] == '+' {
			return frame
		}
	}
	if len(frames) > 0 {
		return frames[0]
	}
	return ""
}

// alone has the frames of the one goroutine that can run, without those of Go's runtime, and says if it is in the
// allocator. One in a call of the system or of C may take memory as well. There are no frames where several can run.
func alone(stacks []runtime.StackRecord, root string) (frames []string, takes bool) {
	found := 0
	for at := range stacks {
		said, allocates, runs := stack(&stacks[at], root)
		if runs {
			found++
			frames, takes = said, allocates
		}
	}
	if found != 1 {
		return nil, false
	}
	return frames, takes
}

// stack says what one goroutine does.
func stack(record *runtime.StackRecord, root string) (frames []string, allocates, runs bool) {
	called := record.Stack()
	for at := 1; at < len(called); at++ {
		if before := runtime.FuncForPC(called[at-1] - 1); before != nil && before.Name() == "runtime.asyncPreempt" {
			called[at]++ // it was not called here, but interrupted
		}
	}
	all := runtime.CallersFrames(called)
	waits := false
	for more, at := true, 0; more; at++ {
		var frame runtime.Frame
		frame, more = all.Next()
		name := frame.Function
		allocates = allocates || len(frames) == 0 && isAllocator(name)
		if strings.HasPrefix(name, "runtime.") || strings.HasPrefix(name, "internal/runtime/") ||
			strings.HasPrefix(name, "runtime/internal/") {
			waits = waits || at == 0 && name == "runtime.gopark" || name == "runtime.notetsleepg"
			continue
		}
		if strings.HasSuffix(name, "/truemem.running") || name == "truemem.running" {
			return nil, false, false // this goroutine
		}
		if name == "" {
			continue
		}
		mark := "-"
		if isOwn(&frame, root) {
			mark = "+"
		}
		frames = append(frames, fmt.Sprintf("%s %d %s %s\n", mark, frame.Line, name, frame.File))
	}
	return frames, allocates, !waits || allocates // one that waits there helps the collector first
}

// allocators are begins of names: who is there takes memory, or helps the collector for it.
var allocators = []string{"runtime.mallocgc", "runtime.newobject", "runtime.newarray", "runtime.makeslice",
	"runtime.growslice", "runtime.hashGrow", "runtime.rawstring", "runtime.rawbyteslice", "runtime.convT",
	"runtime.gcAssistAlloc", "reflect.unsafe_New", "reflect.growslice", "internal/reflectlite.unsafe_New"}

func isAllocator(name string) bool {
	for _, each := range allocators {
		if strings.HasPrefix(name, each) {
			return true
		}
	}
	return false
}

// library is the folder of Go's own source, empty with -trimpath.
func library() string {
	var called [1]uintptr
	runtime.Callers(0, called[:]) // of runtime.Callers
	frame, _ := runtime.CallersFrames(called[:]).Next()
	return strings.TrimSuffix(frame.File, "runtime/extern.go")
}

// isOwn is for the program's own code: no library, none of Go's, and none that cgo has made.
func isOwn(frame *runtime.Frame, root string) bool {
	file := frame.File
	if strings.Contains(file, "/pkg/mod/") || strings.Contains(file, "/vendor/") || strings.Contains(file, "@v") ||
		path.Base(file) == "_cgo_gotypes.go" || file == "<autogenerated>" {
		return false
	}
	if root != "" {
		return !strings.HasPrefix(file, root)
	}
	first, _, _ := strings.Cut(frame.Function, "/")
	if strings.HasPrefix(first, "main.") {
		return true
	}
	module := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		module = info.Main.Path
	}
	name := frame.Function
	return module != "" && (strings.HasPrefix(name, module+"/") || strings.HasPrefix(name, module+"."))
}
