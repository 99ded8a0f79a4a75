// Goroutines for the case `threads`: PROGRAM WHAT NUMBER TIMES prints the nanoseconds that it took and a further number.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Bytes that each goroutine of `alive` writes before it waits, and reads afterwards.
const own = 1 << 10

func fail(why string) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(1)
}

// Returns the bytes of this process that are in memory.
func resident() uint64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		fail(err.Error())
	}
	pages, err := strconv.ParseUint(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		fail(err.Error())
	}
	return pages * uint64(os.Getpagesize())
}

// Creates goroutines that return a number, and waits for each: a channel of one place is what a goroutine returns by.
func create(many, times int) uint64 {
	sum := uint64(0)
	ends := make([]chan uint64, many)
	for n := range ends {
		ends[n] = make(chan uint64, 1)
	}
	for range times {
		for n, end := range ends {
			go func() { end <- uint64(n) }()
		}
		for _, end := range ends {
			sum += <-end
		}
	}
	return sum
}

func switches(goroutines, times int) {
	ends := make(chan struct{}, goroutines)
	for range goroutines {
		go func() {
			for range times {
				runtime.Gosched()
			}
			ends <- struct{}{}
		}()
	}
	for range goroutines {
		<-ends
	}
}

func pingPong(times int) time.Duration {
	to, back := make(chan int, 1), make(chan int, 1)
	go func() {
		for message := range to {
			back <- message
		}
	}()
	start := time.Now()
	for n := range times {
		to <- n
		if <-back != n {
			fail("a wrong message")
		}
	}
	took := time.Since(start)
	close(to)
	return took
}

//go:noinline
func hold(n int, waiting *atomic.Int64, gate chan struct{}) uint64 {
	var bytes [own]byte
	for at := range bytes {
		bytes[at] = byte(n)
	}
	waiting.Add(1)
	<-gate
	return uint64(bytes[n%own])
}

func alive(goroutines int) uint64 {
	before := resident()
	var waiting atomic.Int64
	gate := make(chan struct{})
	ends := make(chan uint64, 1024)
	for n := range goroutines {
		go func() { ends <- hold(n, &waiting, gate) }()
	}
	for waiting.Load() < int64(goroutines) {
		runtime.Gosched()
	}
	bytes := resident() - before
	close(gate)
	sum, expected := uint64(0), uint64(0)
	for n := range goroutines {
		sum += <-ends
		expected += uint64(byte(n))
	}
	if sum != expected {
		fail("a goroutine has lost its bytes")
	}
	return bytes
}

func main() {
	if len(os.Args) != 4 {
		fail("usage: WHAT NUMBER TIMES")
	}
	number, err := strconv.Atoi(os.Args[2])
	if err != nil {
		fail(err.Error())
	}
	times, err := strconv.Atoi(os.Args[3])
	if err != nil {
		fail(err.Error())
	}
	further := uint64(0)
	start := time.Now()
	var took time.Duration
	switch os.Args[1] {
	case "create":
		further = create(number, times)
	case "switch":
		switches(number, times)
	case "ping-pong":
		took = pingPong(times)
	case "alive":
		further = alive(number)
	default:
		fail("it does not do that")
	}
	if took == 0 {
		took = time.Since(start)
	}
	fmt.Println(took.Nanoseconds(), further)
}
