package dagspec

import (
	"slices"
	"strings"
	"testing"
)

func TestShellCommand_AddsNoFlagWhereOneIs(t *testing.T) {
	t.Parallel()
	for shell, want := range map[string]string{
		"/bin/sh -eu":                  "/bin/sh -eu | -c",
		"sh":                           "sh | -c",
		"bash -euo pipefail":           "bash -euo pipefail | -c",
		"bash -euo pipefail -c":        "bash -euo pipefail | -c",
		"bash -e":                      "bash -e | -c",
		"/bin/bash -ec":                "/bin/bash -e | -c",
		"python3":                      "python3 | -c",
		"python3 -c":                   "python3 | -c",
		"python3.12 -Ic":               "python3.12 -I | -c",
		"python3 -u":                   "python3 -u | -c",
		"node -e":                      "node | -e",
		"/usr/bin/env node --eval":     "/usr/bin/env node | --eval",
		"perl -w -E":                   "perl -w | -E",
		"php -r":                       "php | -r",
		"docker run --rm alpine sh -c": "docker run --rm alpine sh | -c",
		"psql -c":                      "psql | -c",
		"rsync-like -avc":              "rsync-like -avc | -c",
	} {
		words := strings.Fields(shell)
		before := slices.Clone(words)
		program, flag := ShellCommand(words)
		if got := strings.Join(program, " ") + " | " + flag; got != want {
			t.Errorf("%s: %s, want %s", shell, got, want)
		}
		if !slices.Equal(words, before) {
			t.Errorf("%s became %v", shell, words)
		}
	}
}
