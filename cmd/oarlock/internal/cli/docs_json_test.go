package cli

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/runview"
)

// documented has the JSON types of each command, by the beginning of the command's row in the table of cli.head.md.
var documented = map[string][]any{
	"`cancel`":              {runview.ControlJSON{}, jsonRehearsed{}},
	"`approvals`":           {jsonApproval{}, dagspec.Param{}},
	"`events`":              {runview.StoryEvent{}},
	"`logs -o jsonl`":       {runview.ChunkJSON{}},
	"`workers`":             {runview.WorkerJSON{}},
	"`workers drain`":       {jsonDrained{}},
	"`queues`":              {runview.QueueJSON{}},
	"`pools`":               {jsonPoolShown{}, jsonPoolKey{}, jsonPermit{}},
	"`schedules`":           {jsonSchedule{}, jsonLast{}, jsonBackfill{}},
	"`schedules fires`":     {jsonFire{}},
	"`backfill`":            {jsonMade{}, jsonEnd{}, jsonBackfillTime{}},
	"`top`":                 {jsonTop{}},
	"`stats`":               {runview.StatsJSON{}, runview.DAGStatsJSON{}},
	"`prune`":               {jsonPruned{}, jsonPrunedDAG{}},
	"`dag list`":            {runview.ListedDAGJSON{}},
	"`dag show`":            {jsonDAGVersion{}},
	"`dag show --next`":     {jsonTimes{}},
	"`dag apply`":           {jsonApply{}, jsonNext{}},
	"`dag validate`":        {jsonValidated{}, jsonProblem{}, jsonValidFile{}},
	"`dag graph -o json`":   {jsonGraph{}, jsonGraphNode{}, jsonGraphEdge{}},
	"`doctor`":              {jsonReport{}, jsonCheck{}},
	"`migrate status`":      {jsonMigrations{}, jsonMigration{}, jsonInstallation{}, jsonPlace{}},
	"`migrate up`":          {jsonApplied{}},
	"`migrate adopt`":       {jsonAdopted{}, jsonPlace{}},
	"`config show`":         {jsonSetting{}},
	"`version`":             {jsonVersion{}},
	"{\"id\": 41, \"uid\":": {runview.StatusJSON{}, runview.TaskJSON{}, runview.ItemCountJSON{}},
}

var (
	shape = regexp.MustCompile("`[^`]*[{][^`]*`")
	word  = regexp.MustCompile(`[a-z][a-z0-9_]*`)
	key   = regexp.MustCompile(`"([a-z_0-9]+)":`)
)

// TestDocs_NameEveryJSONField compares both ways: each field is documented, and each documented field exists.
func TestDocs_NameEveryJSONField(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "cli.head.md"))
	if err != nil {
		t.Fatal(err)
	}
	for begin, shapes := range documented {
		said := map[string]bool{}
		if strings.HasPrefix(begin, "`") {
			_, row, found := strings.Cut(string(text), "\n| "+begin)
			row, _, _ = strings.Cut(row, "\n")
			for _, code := range shape.FindAllString(row, -1) {
				for _, w := range word.FindAllString(code, -1) {
					said[w] = true
				}
			}
			if !found {
				t.Errorf("no row for %s", begin)
			}
		} else {
			said = keysOfExample(string(text), begin)
		}
		has := map[string]bool{}
		for _, s := range shapes {
			fieldsOf(reflect.TypeOf(s), has)
		}
		if begin == "`dag show`" { // has the fields of a DAG in dag list, and more
			inherited := map[string]bool{}
			fieldsOf(reflect.TypeFor[runview.DAGJSON](), inherited)
			maps.DeleteFunc(has, func(name string, _ bool) bool { return inherited[name] })
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(said)), slices.Sorted(maps.Keys(has))); diff != "" {
			t.Errorf("%s: - documented, + there\n%s", begin, diff)
		}
	}
}

// keysOfExample returns the keys of the example's run, its task and its items, without the keys inside params and states.
func keysOfExample(text, begin string) map[string]bool {
	_, rest, _ := strings.Cut(text, begin)
	example, _, _ := strings.Cut(begin+rest, "```")
	said := map[string]bool{}
	for _, found := range key.FindAllStringSubmatch(strings.NewReplacer(`"day":`, "", `"succeeded":`, "").Replace(example), -1) {
		said[found[1]] = true
	}
	return said
}

func fieldsOf(of reflect.Type, into map[string]bool) {
	for f := range of.Fields() {
		if f.Anonymous {
			fieldsOf(f.Type, into)
			continue
		}
		if !f.IsExported() {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		into[name] = true
	}
}
