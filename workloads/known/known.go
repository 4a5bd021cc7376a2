// known-go SECONDS: depths of 1 to 4 calls on two goroutines. `known-go --chains`: see known.c.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

//go:noinline
func leaf(seed uint64) uint64 {
	for pass := uint64(0); pass < 100000; pass++ {
		seed = seed*6364136223846793005 + pass
	}
	return seed
}

//go:noinline
func g1(depth, seed uint64) uint64 {
	if depth == 1 {
		return leaf(seed) + 1
	}
	return g2(depth, seed) + 1
}

//go:noinline
func g2(depth, seed uint64) uint64 {
	var room [20]uint64
	room[seed%20] = seed
	if depth == 2 {
		return leaf(seed) + room[depth]
	}
	return g3(depth, seed) + room[depth]
}

//go:noinline
func g3(depth, seed uint64) uint64 {
	if depth == 3 {
		return leaf(seed) + 1
	}
	return g4(depth, seed) * 5
}

//go:noinline
func g4(depth, seed uint64) uint64 {
	var room [7]uint64
	room[seed%7] = seed
	return leaf(seed) + room[depth]
}

//go:noinline
func work(end time.Time) uint64 {
	sum := uint64(0)
	for round := uint64(0); time.Now().Before(end); round++ {
		sum += g1(round%4+1, sum)
	}
	return sum
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "--chains" {
		// Threads of the runtime, and what it does on stacks of its own.
		fmt.Println("apart runtime.mcall\napart runtime.mstart1\napart runtime.schedinit\napart runtime.doInit1")
		for _, root := range []string{"main.main", "main.main.func1"} {
			fmt.Printf("chain %s\nchain main.work %s\n", root, root)
			for depth := 1; depth <= 4; depth++ {
				callers := []string{}
				for at := depth; at > 0; at-- {
					callers = append(callers, fmt.Sprintf("main.g%d", at))
				}
				all := strings.Join(callers, " ")
				fmt.Printf("chain main.leaf %s main.work %s\nchain %s main.work %s\n", all, root, all, root)
			}
		}
		return
	}
	seconds := 1.0
	if len(os.Args) > 1 {
		seconds, _ = strconv.ParseFloat(os.Args[1], 64)
	}
	end := time.Now().Add(time.Duration(seconds * 1e9))
	done := make(chan uint64)
	go func() { done <- work(end) }()
	sum := work(end) + <-done
	if sum == 42 {
		fmt.Println(sum)
	}
}
