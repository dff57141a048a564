package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// The Runtime API: calls handler for each event. Each CASE_STEP invocations it tells CASE_FIGURES, as measured.py does,
// what Go has in use for objects and stacks, in KiB. With CASE_COLLECT the collector runs before.
func main() {
	api := "http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/"
	step, _ := strconv.Atoi(os.Getenv("CASE_STEP"))
	for number := 1; ; number++ {
		next, err := http.Get(api + "next")
		if err != nil {
			os.Exit(1)
		}
		event, _ := io.ReadAll(next.Body)
		next.Body.Close()
		handler(string(event))
		if step > 0 && number%step == 0 {
			tell(os.Getenv("CASE_FIGURES"))
		}
		id := next.Header.Get("Lambda-Runtime-Aws-Request-Id")
		done, err := http.Post(api+id+"/response", "application/json", strings.NewReader("{}"))
		if err != nil {
			os.Exit(1)
		}
		io.Copy(io.Discard, done.Body)
		done.Body.Close()
	}
}

func tell(figures string) {
	if os.Getenv("CASE_COLLECT") != "" {
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	file, err := os.OpenFile(figures, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		os.Exit(1)
	}
	fmt.Fprintf(file, "{\"used\": %d}\n", (stats.HeapAlloc+stats.StackInuse)>>10)
	file.Close()
}
