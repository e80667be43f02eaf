package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"testing"
)

func TestBuildVersion_TakesWhatGoRecorded(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-21T08:00:00+02:00"}, {Key: "vcs.modified", Value: "true"},
	}}
	v := buildVersion(info, true)
	if v.Version != "v1.2.3" || *v.Commit != "abc" || *v.Date != "2026-11-21T06:00:00Z" || !v.Modified {
		t.Errorf("got %+v", v)
	}
	if v := buildVersion(nil, false); v.Version != "(devel)" || v.Commit != nil || v.Date != nil || v.Modified {
		t.Errorf("out of nothing: %+v", v)
	}
}

// stamped makes a project of one file, with a copy of tools/version-stamp.
func stamped(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	text, err := os.ReadFile("../../../../tools/version-stamp")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "tools"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tools/version-stamp"), text, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// in runs a command in dir, without any user's git settings and without a repository around dir.
func in(t *testing.T, dir string, command ...string) string {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v: %s", command, err, out)
	}
	return string(out)
}

func TestVersionStamp_SetsTheVariablesOfThisPackage(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	dir := stamped(t)
	if got := in(t, dir, "tools/version-stamp", "p"); got != "" {
		t.Errorf("without a repository: %q", got)
	}
	in(t, dir, "git", "init", "-q")
	if got := in(t, dir, "tools/version-stamp", "p"); got != "" {
		t.Errorf("without a commit: %q", got)
	}
	in(t, dir, "git", "add", ".")
	in(t, dir, "git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "first")
	want := func(version, modified string) {
		t.Helper()
		flags := `^-X p\.version=` + version + ` -X p\.commit=[0-9a-f]{40} -X p\.date=20\S+ -X p\.modified=` + modified + `\n$`
		if got := in(t, dir, "tools/version-stamp", "p"); !regexp.MustCompile(flags).MatchString(got) {
			t.Errorf("got %q, want %s", got, flags)
		}
	}
	want(`v0\.0\.0-g[0-9a-f]+`, "")
	in(t, dir, "git", "tag", "v1.2.3")
	want(`v1\.2\.3`, "")
	if err := os.WriteFile(filepath.Join(dir, "new"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(`v1\.2\.3\+modified`, "true")
}
