// Handlers that keep something, each with a repaired twin. KEEPS says which one runs. The line that keeps ends with its
// name.
package main

import (
	"io"
	"net/http"
	"os"
	"strings"
)

var handlers = map[string]func(){}

func main() {
	handle := handlers[os.Getenv("KEEPS")]
	api := "http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/"
	for {
		next, err := http.Get(api + "next")
		if err != nil {
			os.Exit(1)
		}
		io.Copy(io.Discard, next.Body)
		next.Body.Close()
		handle()
		id := next.Header.Get("Lambda-Runtime-Aws-Request-Id")
		done, err := http.Post(api+id+"/response", "application/json", strings.NewReader("{}"))
		if err != nil {
			os.Exit(1)
		}
		io.Copy(io.Discard, done.Body)
		done.Body.Close()
	}
}
