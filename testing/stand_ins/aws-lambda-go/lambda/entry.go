// Package lambda stands for AWS's own where that cannot be downloaded: Start alone, for handlers with two arguments and
// two results.
package lambda

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"reflect"
)

// Start calls the handler for each event of the Runtime API.
func Start(handler interface{}) {
	api := "http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/"
	function := reflect.ValueOf(handler)
	for {
		next, err := http.Get(api + "next")
		if err != nil {
			os.Exit(1)
		}
		text, _ := io.ReadAll(next.Body)
		next.Body.Close()
		event := reflect.New(function.Type().In(1))
		answer, path := []byte(nil), "/response"
		if err = json.Unmarshal(text, event.Interface()); err == nil {
			made := function.Call([]reflect.Value{reflect.ValueOf(context.Background()), event.Elem()})
			err, _ = made[1].Interface().(error)
			answer, _ = json.Marshal(made[0].Interface())
		}
		if err != nil {
			answer, _ = json.Marshal(map[string]string{"errorMessage": err.Error(), "errorType": "error"})
			path = "/error"
		}
		id := next.Header.Get("Lambda-Runtime-Aws-Request-Id")
		done, err := http.Post(api+id+path, "application/json", bytes.NewReader(answer))
		if err != nil {
			os.Exit(1)
		}
		io.Copy(io.Discard, done.Body)
		done.Body.Close()
	}
}
