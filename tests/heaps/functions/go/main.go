// A function in Go that allocates as it is asked to: {"do": what, "mib": how much}, with a runtime client of its own.
package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"runtime"

	"function/truemem"
)

var kept [][]byte

func handle(requestID string, event struct {
	Do  string
	MiB float64
}) {
	defer truemem.Note(requestID)
	made := [][]byte{}
	for n := 0; n < int(event.MiB*1024); n++ {
		made = append(made, bytes.Repeat([]byte("x"), 1024))
	}
	switch event.Do {
	case "leak":
		kept = append(kept, made...)
	case "collect":
		runtime.GC()
	case "empty":
		pages, _ := os.ReadDir(os.Getenv("TMPDIR"))
		for _, page := range pages {
			os.Remove(os.Getenv("TMPDIR") + "/" + page.Name())
		}
	}
}

func main() {
	api := "http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/"
	for {
		next, err := http.Get(api + "next")
		if err != nil {
			panic(err)
		}
		var event struct {
			Do  string
			MiB float64
		}
		if err := json.NewDecoder(next.Body).Decode(&event); err != nil {
			panic(err)
		}
		next.Body.Close()
		requestID := next.Header.Get("Lambda-Runtime-Aws-Request-Id")
		handle(requestID, event)
		answered, err := http.Post(api+requestID+"/response", "application/json", bytes.NewBufferString("{}"))
		if err != nil {
			panic(err)
		}
		answered.Body.Close()
	}
}
