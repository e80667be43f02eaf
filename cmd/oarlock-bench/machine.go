package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

var settingsSQL = sql.Named("bench/settings")

// Machine is what figures depend on besides the code.
type Machine struct {
	CPU      string   `json:"cpu"`
	Cores    int      `json:"cores"`
	Memory   string   `json:"memory"`
	Kernel   string   `json:"kernel"`
	Load     string   `json:"load"` // of the last minutes, before the start
	Go       string   `json:"go"`
	Oarlock  string   `json:"oarlock"`
	Modules  []string `json:"modules"`
	Postgres []string `json:"postgres"` // its settings and version
}

func (l *Lab) describe(ctx context.Context) (Machine, error) {
	m := Machine{
		CPU: after("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU(), Memory: after("/proc/meminfo", "MemTotal"),
		Kernel: firstLine("/proc/sys/kernel/osrelease"), Load: firstLine("/proc/loadavg"), Go: runtime.Version(), Modules: modules(),
	}
	version, err := exec.CommandContext(ctx, l.program, "version").Output()
	if err != nil {
		return m, err
	}
	m.Oarlock, _, _ = strings.Cut(string(version), "\n")
	rows, err := l.admin.Query(ctx, settingsSQL)
	if err != nil {
		return m, err
	}
	m.Postgres, err = pgx.CollectRows(rows, pgx.RowTo[string])
	return m, err
}

// modules are the versions of what both sides are made of.
func modules() (versions []string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, d := range info.Deps {
		switch d.Path {
		case "github.com/riverqueue/river", "github.com/jackc/pgx/v5":
			versions = append(versions, d.Path+" "+d.Version)
		}
	}
	return versions
}

// after is what a file of the kernel says of a key; "" elsewhere than on Linux.
func after(path, key string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}
