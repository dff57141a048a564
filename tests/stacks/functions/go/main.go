// A function in Go that takes memory without end in the way that "case" names; lines that take it end with its name.
package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"example.com/hoard"
	"function/truemem"
)

var (
	held  [][]byte
	texts []string
	lock  sync.Mutex
)

type order struct {
	Name  string
	Lines []int
	next  *order
}

type zeros struct{}

func (zeros) Read(into []byte) (int, error) {
	for at := range into {
		into[at] = 1 // readAll
	}
	return len(into), nil
}

func slices() {
	for {
		held = append(held, make([]byte, 5000)) // slices
	}
}

func filled() {
	for {
		made := make([]byte, 100_000) // filled
		for at := range made {
			made[at] = byte(at) // filled
		}
		held = append(held, made)
	}
}

func numbers() {
	var all []int
	for at := 0; ; at++ {
		all = append(all, at) // numbers
	}
}

func mapped() {
	all := map[int]int{}
	for at := 0; ; at++ {
		all[at] = at // mapped
	}
}

func mapOfText() {
	all := map[string]*order{}
	for at := 0; ; at++ {
		name := "order " + strconv.Itoa(at) // mapOfText
		all[name] = &order{Name: name}      // mapOfText
	}
}

func repeated() {
	for {
		texts = append(texts, strings.Repeat("x", 2000)) // repeated
	}
}

func large() {
	made := make([]byte, 4<<30)
	for at := range made {
		made[at] = 1 // large
	}
	held = append(held, made)
}

func buffer() {
	var all bytes.Buffer
	line := []byte(strings.Repeat("x", 300))
	for {
		all.Write(line) // buffer
	}
}

func readAll() {
	made, _ := io.ReadAll(zeros{}) // readAll
	held = append(held, made)
}

func documents() {
	text := []byte("[" + strings.Repeat(`{"Name":"a","Lines":[1,2,3]},`, 10_000) + `{"Name":"a"}]`)
	var all [][]order
	for {
		var some []order
		_ = json.Unmarshal(text, &some) // documents
		all = append(all, some)
	}
}

func linked() {
	var first *order
	for {
		first = &order{Name: "x", next: first} // linked
	}
}

func closure() {
	keep := func(size int) {
		held = append(held, bytes.Repeat([]byte{1}, size)) // closure
	}
	for {
		keep(3000)
	}
}

func library() {
	for {
		hoard.Keep(4000) // library
	}
}

func generic() {
	var all [][]int
	for {
		all = append(all, several[int](500)) // generic
	}
}

func several[T any](count int) []T {
	made := make([]T, 0)
	for ; count > 0; count-- {
		var one T
		made = append(made, one) // generic
	}
	return made
}

func channel() {
	queue := make(chan []byte, 10_000_000)
	for {
		queue <- make([]byte, 4000) // channel
	}
}

func oneOfSeveral() {
	for range make([]int, 20) {
		go func() {
			for {
				time.Sleep(20 * time.Millisecond)
			}
		}()
	}
	done := make(chan bool)
	go func() {
		for {
			held = append(held, bytes.Repeat([]byte{1}, 3000)) // oneOfSeveral
		}
	}()
	<-done
}

// Which of them is not known.
func all() {
	for range make([]int, 4) {
		go func() {
			var mine [][]byte
			for {
				mine = append(mine, make([]byte, 3000)) // all
			}
		}()
	}
	select {}
}

// One takes memory, and others only use the processor.
func besideBusy() {
	for range make([]int, 2) {
		go func() {
			for sum := 0; ; sum++ {
			}
		}()
	}
	for {
		held = append(held, make([]byte, 3000)) // besideBusy
	}
}

// One takes memory now and then, and sleeps; another one uses the processor always.
func rarely() {
	go func() {
		for {
			for range make([]int, 100) {
				held = append(held, bytes.Repeat([]byte{1}, 10_000)) // rarely
			}
			time.Sleep(2 * time.Millisecond)
		}
	}()
	for sum := 0; ; sum++ {
		if sum < 0 {
			runtime.Gosched()
		}
	}
}

func pages() {
	for {
		made, err := syscall.Mmap(-1, 0, 1<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			return
		}
		for at := 0; at < len(made); at += 4096 {
			made[at] = 1 // pages
		}
	}
}

// Work that keeps nothing, between small parts of what is kept: by far the most time is in the sum.
func between() {
	for {
		sum := 0
		for at := 0; at < 200_000; at++ {
			sum += at * at
		}
		lock.Lock()
		held = append(held, bytes.Repeat([]byte{byte(sum)}, 60_000)) // between
		lock.Unlock()
	}
}

var cases = map[string]func(){
	"slices": slices, "filled": filled, "numbers": numbers, "mapped": mapped, "mapOfText": mapOfText,
	"repeated": repeated, "large": large, "buffer": buffer, "readAll": readAll, "documents": documents,
	"linked": linked, "closure": closure, "library": library, "generic": generic, "channel": channel,
	"oneOfSeveral": oneOfSeveral, "all": all, "besideBusy": besideBusy, "rarely": rarely, "pages": pages,
	"between": between,
}

func handle(requestID, name string) {
	defer truemem.Note(requestID)
	if do := cases[name]; do != nil {
		do()
	}
}

func main() {
	api := "http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/"
	for {
		next, err := http.Get(api + "next")
		if err != nil {
			panic(err)
		}
		var event struct{ Case string }
		if err := json.NewDecoder(next.Body).Decode(&event); err != nil {
			panic(err)
		}
		next.Body.Close()
		requestID := next.Header.Get("Lambda-Runtime-Aws-Request-Id")
		handle(requestID, event.Case)
		answered, err := http.Post(api+requestID+"/response", "application/json", bytes.NewBufferString("{}"))
		if err != nil {
			panic(err)
		}
		answered.Body.Close()
	}
}
