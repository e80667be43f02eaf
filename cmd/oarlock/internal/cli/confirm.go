package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
)

var errDeclined = errors.New("not confirmed: nothing was changed")

// confirm asks the user whether to go on; only "y" and "yes" agree. The caller must have checked that there is a terminal.
func (e *env) confirm(ctx context.Context) error {
	fmt.Fprint(e.Stderr, "Go on? [y/N] ")
	answer := make(chan string, 1)
	go func() { // a read from a terminal cannot be interrupted: after Ctrl-C this goroutine ends with the process
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
