package main

import "strings"

// A helper makes what several ask for, and one of them keeps.

func header(n int) string {
	return strings.Repeat("x", size+n%2)
}

var headers [10_000]string

func helper() {
	number++
	length := len(header(number)) + len(header(number+1))
	one := header(number) // helper
	headers[number] = one[:length%10+1]
}

func helperRepaired() {
	number++
	length := len(header(number)) + len(header(number+1))
	one := header(number)
	headers[number] = strings.Clone(one[:length%10+1])
}

// A helper makes the list longer that it is given, and one of two lists stays.

func collect(into *[]string, count int) {
	for at := 0; at < count; at++ {
		*into = append(*into, header(at))
	}
}

var collectedOnes []string

func collected() {
	var some []string
	collect(&some, 3)
	collect(&collectedOnes, 1) // collected
	number += len(some)
}

func collectedRepaired() {
	var some []string
	collect(&some, 3)
	collect(&collectedOnes, 1)
	number += len(some)
	collectedOnes = nil
}

// Whoever calls this helper keeps what it makes; the first entry of all is made once.

type entry struct{ body [size]byte }

func newEntry(n int) *entry {
	return &entry{[size]byte{byte(n)}} // everywhere
}

var firstEntry *entry

var entries, entriesOfOthers, seldomEntries [10_000]*entry

func everywhere() {
	if number++; number == 1 {
		firstEntry = newEntry(0)
	}
	entries[number] = newEntry(1)
	entriesOfOthers[number] = newEntry(2)
	if number%40 == 0 {
		seldomEntries[number] = newEntry(3)
	}
}

func everywhereRepaired() {
	number++
	entries[number%20] = newEntry(1)
	entriesOfOthers[number%20] = newEntry(2)
}
