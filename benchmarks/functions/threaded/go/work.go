package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"sort"
	"strings"
)

const mib = 1 << 20

var (
	kept = map[int][]byte{}
	sink any
)

func touch(size int) {
	block := make([]byte, size)
	for at := 0; at < size; at += 4096 {
		block[at] = 1
	}
	sink = block
	sink = nil
}

// work does what the event names, and returns the answer.
func work(event string) string {
	switch kind := func(name string) bool { return strings.Contains(event, name) }; {
	case kind("touch"):
		touch(50 * mib)
	case kind("twice"):
		touch(30 * mib)
		touch(40 * mib)
	case kind("buffers"):
		for n := 0; n < 4; n++ {
			touch(5 * mib)
		}
	case kind("sorting"):
		sort.Ints(rand.Perm(100_000))
	case kind("table"):
		made := map[string]int{}
		for n := 0; n < 50_000; n++ {
			made[fmt.Sprintf("order %d", n)] = n
		}
		sink, _ = json.Marshal(made)
	case kind("caching"):
		for n := 0; n < 40; n++ {
			kept[rand.Intn(100)] = make([]byte, 200_000)
		}
	case kind("answer"):
		return strings.Repeat("x", 1_000_000)
	}
	return "ok"
}
