package runview

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// ReadUpcoming is ReadTime for times in the future: it also reads a span from now, such as +10m. It returns ok false if the text is
// neither.
func ReadUpcoming(text string, now time.Time, zone *time.Location) (at time.Time, ok bool, err error) {
	if at, ok, err := ReadTime(text, now, zone); ok || err != nil {
		return at, ok, err
	}
	if from, ok := strings.CutPrefix(text, "+"); ok {
		if d, err := dagspec.ParseDuration(from); err == nil {
			return now.Add(d.Std()), true, nil
		}
	}
	return time.Time{}, false, nil
}

// LooseParams converts texts to params without the types of the DAG, for a login that may not read the definition. A text that is a
// JSON list or object becomes that value. Any other text stays a text, which the database reads as a number or a boolean where
// needed.
func LooseParams(given map[string]string) map[string]any {
	params := make(map[string]any, len(given))
	for name, text := range given {
		params[name] = text
		if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
			if raw := json.RawMessage(text); json.Valid(raw) {
				params[name] = raw
			}
		}
	}
	return params
}

// TypedParams converts texts to params by the types that the DAG declares. The result holds only the given params. It fails for a
// text that does not fit, and for a required param that is missing. With partial, a run or a schedule has the others
// already, so none of them is required.
func TypedParams(spec *dagspec.Spec, given map[string]string, partial bool) (map[string]any, error) {
	asked := *spec
	asked.ParamDefs = slices.Clone(spec.ParamDefs)
	for i := range asked.ParamDefs {
		if _, isGiven := given[asked.ParamDefs[i].Name]; partial && !isGiven {
			asked.ParamDefs[i].Required = false
		}
	}
	typed, err := asked.ParamsFromText(given)
	if err != nil {
		return nil, err
	}
	for name := range typed {
		if _, isGiven := given[name]; !isGiven {
			delete(typed, name)
		}
	}
	return typed, nil
}

// EnqueueCommand returns the command "oarlock enqueue …" that a person types for a request. The params come from the argument
// params, as texts by name, and not from r.
func EnqueueCommand(r *queue.Request, params map[string]string) string {
	command := "oarlock enqueue " + exactWord(r.DAG) + ParamFlags(params)
	if r.Key != "" {
		command += " --key " + exactWord(r.Key)
	}
	if !r.RunAt.IsZero() {
		command += " --at " + r.RunAt.UTC().Format(time.RFC3339)
	}
	if r.Priority != nil {
		command += " --priority " + strconv.Itoa(*r.Priority)
	}
	if r.Queue != "" {
		command += " --queue " + exactWord(r.Queue)
	}
	return command + textFlags("-l", r.Labels, exactWord)
}

// RerunCommand returns the command "oarlock retry …" that makes a new run from a run that has ended, with changed params or, if
// latest, of the newest version. It returns "" if neither changes, because such a retry makes no new run.
func RerunCommand(run queue.RunID, params map[string]string, latest bool) string {
	if !latest && len(params) == 0 {
		return ""
	}
	command := fmt.Sprintf("oarlock retry %d", run)
	if latest {
		command += " --latest"
	}
	return command + ParamFlags(params)
}

// ParamFlags returns " -p NAME=VALUE" for each of the params, which are texts by name, in the order of the names.
func ParamFlags(params map[string]string) string { return textFlags("-p", params, exactWord) }

// textFlags returns a flag with NAME=VALUE for each text, in the order of the names, each with a blank before it. quote quotes
// NAME=VALUE for the shell.
func textFlags(flag string, texts map[string]string, quote func(string) string) (flags string) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		flags += " " + flag + " " + quote(name+"="+texts[name])
	}
	return flags
}

// exactWord is ShellWord for texts that must not change. If a text has characters that cannot be printed, it returns $'…' with
// escapes for bash and zsh.
func exactWord(word string) string {
	if word != "" && Printable(word) == word {
		return ShellWord(word)
	}
	var b strings.Builder
	for len(word) > 0 {
		r, size := utf8.DecodeRuneInString(word)
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\'' || r == '\\':
			b.WriteString(`\` + word[:1])
		case r == '\t' || r == utf8.RuneError || commandsTerminal(r):
			for _, c := range []byte(word[:size]) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		default:
			b.WriteString(word[:size])
		}
		word = word[size:]
	}
	return "$'" + b.String() + "'"
}

// EnqueueStatement returns the SQL statement "SELECT oarlock.enqueue(…);" that makes the run of a request.
func EnqueueStatement(r *queue.Request) string {
	args := []string{sqlText(r.DAG)}
	if params := sqlJSON(r.Params); params != "'{}'" {
		args = append(args, params)
	}
	if r.Key != "" {
		args = append(args, "run_key => "+sqlText(r.Key))
	}
	if !r.RunAt.IsZero() {
		args = append(args, "run_at => "+sqlText(r.RunAt.UTC().Format(time.RFC3339)))
	}
	if r.Priority != nil {
		args = append(args, "priority => "+strconv.Itoa(*r.Priority))
	}
	if r.Queue != "" {
		args = append(args, "queue => "+sqlText(r.Queue))
	}
	if len(r.Labels) > 0 {
		args = append(args, "labels => "+sqlJSON(r.Labels))
	}
	return "SELECT oarlock.enqueue(" + strings.Join(args, ", ") + ");" // sql-shown: what a page offers to copy
}

// RerunStatement returns the SQL statement "SELECT oarlock.rerun(…);" that makes a new run from a run that has ended. With latest
// the new run is of the newest version.
func RerunStatement(run queue.RunID, params map[string]any, latest bool) string {
	args := []string{strconv.FormatInt(int64(run), 10)}
	if len(params) > 0 {
		args = append(args, sqlJSON(params))
	}
	if latest {
		args = append(args, "latest => true")
	}
	return "SELECT oarlock.rerun(" + strings.Join(args, ", ") + ");" // sql-shown: what a page offers to copy
}

// sqlText returns a text as an SQL literal. A text that cannot be printed as it is becomes U&'…' with escapes.
func sqlText(text string) string {
	quoted := strings.ReplaceAll(text, "'", "''")
	if Printable(text) == text {
		return "'" + quoted + "'"
	}
	return "U&'" + escapeUnprintable(strings.ReplaceAll(quoted, `\`, `\\`), `\%04x`) + "'"
}

// sqlJSON returns the JSON of a value as an SQL literal. nil becomes '{}'.
func sqlJSON(v any) string {
	if v == nil {
		return "'{}'"
	}
	text := escapeUnprintable(CompactJSON(v), `\u%04x`)
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// escapeUnprintable replaces line ends, tabs and characters that a terminal would obey by an escape. form is the format of the
// escape, with a verb for the number of the character, which has at most four digits.
func escapeUnprintable(text, form string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || r == '\t' || commandsTerminal(r) {
			fmt.Fprintf(&b, form, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
