package main

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

var streams int

func hashOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	hash := hex.EncodeToString(sum[:4])
	return hash
}

// Makes 100 consumers for each event, and names each by the hash of its name.
func handler(event string) {
	streams++
	for consumer := 0; consumer < 100; consumer++ {
		hashOf("stream-" + strconv.Itoa(streams) + "-consumer-" + strconv.Itoa(consumer))
	}
}
