package metrics_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/metrics"
)

var (
	alertedMetric = regexp.MustCompile(`(oarlock_[a-z_]+)(?:\{([^}]*)\})?`)
	alertedLabel  = regexp.MustCompile(`([a-z_]+)(=~|=)"([^"]*)"`)
	alertName     = regexp.MustCompile(`alert: (\w+)`)
	alertRunbook  = regexp.MustCompile(`(?m)alert: (\w+)\n(?: +(?:expr|for): .*\n)+ +annotations:\n +summary: (.*)\n +runbook: docs/operations\.md(#[a-z-]+)$`)
	annotations   = regexp.MustCompile(`(?m)^ +annotations:\n +summary: .*\n +runbook: .*\n`)
	alertedState  = regexp.MustCompile(`alertname: (\w+),?\s+exp_alerts: (\[\]|\[\{)`)
)

// An alert on a missing metric or label would never fire. All that alerts name must exist before the first event, because
// otherwise the first event would not be seen as a rise.
func TestAlerts_NameWhatIsThereFromTheStart(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	fresh := full(t, metrics.Config{Registerer: registry, PerDAG: true})
	fresh.Carry(metrics.Carried{})
	there := seriesOf(t, registry)
	beforehand := prometheus.NewRegistry()
	newSet(t, metrics.Config{Registerer: beforehand}).Watch(func() worker.Status { return worker.Status{Phase: worker.Starting} })
	counted := seriesOf(t, beforehand)
	for _, m := range alertedMetric.FindAllStringSubmatch(string(text), -1) {
		name, labels := m[1], m[2]
		if len(there[name]) == 0 {
			t.Errorf("there is no metric %s", name)
		}
		for _, l := range alertedLabel.FindAllStringSubmatch(labels, -1) {
			for value := range strings.SplitSeq(l[3], "|") {
				pair := l[1] + "=" + value
				if byDAG := strings.Replace(name, "oarlock_dag_", "oarlock_", 1); byDAG != name {
					name = byDAG // has the same labels, once a DAG is known
				}
				if !slices.Contains(there[name], pair) || !slices.Contains(counted[name], pair) {
					t.Errorf("%s has no %s from the start", name, pair)
				}
			}
		}
	}
	for _, name := range []string{"oarlock_drives_total", "oarlock_flushes_total", "oarlock_attempts_total", "oarlock_driver_replacements_total", "oarlock_leases_lost_total", "oarlock_dag_drives_total", "oarlock_log_failing_seconds", "oarlock_prune_overdue_seconds"} {
		if !strings.Contains(string(text), name) {
			t.Errorf("no alert is about %s", name)
		}
	}
}

// seriesOf returns the labels of each metric, as name=value.
func seriesOf(t *testing.T, registry *prometheus.Registry) map[string][]string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string][]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			series[f.GetName()] = append(series[f.GetName()], "")
			for _, l := range m.GetLabel() {
				series[f.GetName()] = append(series[f.GetName()], l.GetName()+"="+l.GetValue())
			}
		}
	}
	return series
}

// Prometheus' own tool tests whether the alerts fire. Without the tool, the test still requires that each alert has both kinds of
// states. The tool compares annotations as well: it gets the rules without them, so that the states need not repeat them.
func TestAlerts_FireWhenTheyShould(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("../../deploy/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	states, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, m := range alertedState.FindAllStringSubmatch(string(states), -1) {
		fires[m[1]] = fires[m[1]] || m[2] != "[]"
		quiet[m[1]] = quiet[m[1]] || m[2] == "[]"
	}
	names := alertName.FindAllStringSubmatch(string(rules), -1)
	if len(names) == 0 {
		t.Error("no alerts")
	}
	for _, m := range names {
		if !fires[m[1]] || !quiet[m[1]] {
			t.Errorf("%s: no state in which it fires, or none in which it does not", m[1])
		}
	}
	promtool := os.Getenv("OARLOCK_TEST_PROMTOOL") // what tools/ensure-promtool prints: where it names a program, nothing here skips
	if promtool == "" {
		if promtool, err = exec.LookPath("promtool"); err != nil {
			t.Skip("no promtool of Prometheus, which runs these states: tools/ensure-promtool brings it")
		}
	}
	folder := t.TempDir()
	for name, text := range map[string]string{
		"rules.yaml":  annotations.ReplaceAllString(string(rules), ""),
		"states.yaml": strings.Replace(string(states), "../../../deploy/alerts.yaml", "rules.yaml", 1),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, words := range [][]string{{"check", "rules", "../../deploy/alerts.yaml"}, {"test", "rules", filepath.Join(folder, "states.yaml")}} {
		if out, err := exec.CommandContext(t.Context(), promtool, words...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v:\n%s", words, err, out)
		}
	}
}

// Each alert leads to a runbook, and the page lists it with the same text. A rule of archtest checks the anchors of the page.
func TestAlerts_AreThoseThatTheDocsShow(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("../../deploy/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	described := alertRunbook.FindAllStringSubmatch(string(rules), -1)
	if names := alertName.FindAllString(string(rules), -1); len(described) != len(names) {
		t.Errorf("%d of %d alerts have a summary and a runbook", len(described), len(names))
	}
	for _, m := range described {
		row := regexp.MustCompile("(?m)^\\| `" + m[1] + "` \\| " + regexp.QuoteMeta(m[2]) + ` \| \[[^]]+\]\(` + m[3] + `\) \|$`)
		if !row.Match(page) {
			t.Errorf("docs/operations.md has no row of %s with its summary and its runbook %s", m[1], m[3])
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `(Oarlock\\w+)` \\|").FindAllStringSubmatch(string(page), -1) {
		if !strings.Contains(string(rules), "alert: "+row[1]+"\n") {
			t.Errorf("docs/operations.md has the alert %s, which deploy/alerts.yaml lacks", row[1])
		}
	}
}

// The losses of former driver processes are in the metrics of their successor.
func TestSet_CarriesLossesOn(t *testing.T) {
	t.Parallel()
	s := full(t, metrics.Config{}) // one lease and one fence lost
	s.Carry(metrics.Carried{Leases: 2, Fences: 3, GivenUp: 4, Replacements: map[string]int64{"overdue": 5, "died": 6, "new": 7}})
	shows(
		t, scrape(t, s),
		"oarlock_leases_lost_total 3", "oarlock_fences_lost_total 4",
		`oarlock_driver_replacements_total{why="overdue"} 5`, `oarlock_driver_replacements_total{why="died"} 6`,
		`oarlock_driver_replacements_total{why="unattached"} 0`, `oarlock_driver_replacements_total{why="other"} 7`,
	)
}
