package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
)

var errDeclined = errors.New("not confirmed: nothing was changed")

// confirm asks a person whether to go on; only "y" and "yes" agree. The caller has made sure that there is a terminal.
func (e *env) confirm(ctx context.Context) error {
	fmt.Fprint(e.Stderr, "Go on? [y/N] ")
	answer := make(chan string, 1)
	go func() { // a read from a terminal cannot be called off: after Ctrl-C this goroutine ends with the process
		line, _ := bufio.NewReader(e.Stdin).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		if said := strings.ToLower(strings.TrimSpace(line)); said == "y" || said == "yes" {
			return nil
		}
		return errDeclined
	case <-ctx.Done():
		fmt.Fprintln(e.Stderr)
		return context.Cause(ctx)
	}
}
