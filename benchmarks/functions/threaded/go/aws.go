//go:build aws

// The same through AWS's own library.
package main

import "github.com/aws/aws-lambda-go/lambda"

func main() {
	lambda.Start(func(event map[string]string) (string, error) {
		return work(event["work"]), nil
	})
}
