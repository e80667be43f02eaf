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

// ReadUpcoming is ReadTime for times in the future: it also reads a span from now, as in +10m.
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

// LooseParams converts texts to params for a DAG with a definition that the login may not read. The database reads texts as
// numbers and booleans where needed. LooseParams recognises lists and objects by their brackets.
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

// TypedParams converts texts by the types that the DAG declares. The result holds only the given params. With again the
// params are for a rerun: the run has the others already, so none of them is required.
func TypedParams(spec *dagspec.Spec, given map[string]string, again bool) (map[string]any, error) {
	asked := *spec
	asked.ParamDefs = slices.Clone(spec.ParamDefs)
	for i := range asked.ParamDefs {
		if _, isGiven := given[asked.ParamDefs[i].Name]; again && !isGiven {
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

// EnqueueCommand returns the command for a request with these params.
func EnqueueCommand(r *queue.Request, params map[string]string) string {
	command := "oarlock enqueue " + exactWord(r.DAG) + textFlags("-p", params, exactWord)
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

// RerunCommand returns the command that makes a new run from one that has ended. It returns "" if neither version nor params
// change, because such a retry is of the same run.
func RerunCommand(run queue.RunID, params map[string]string, latest bool) string {
	if !latest && len(params) == 0 {
		return ""
	}
	command := fmt.Sprintf("oarlock retry %d", run)
	if latest {
		command += " --latest"
	}
	return command + textFlags("-p", params, exactWord)
}

// textFlags writes each text as a flag with NAME=VALUE, quoted.
func textFlags(flag string, texts map[string]string, quote func(string) string) (flags string) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		flags += " " + flag + " " + quote(name+"="+texts[name])
	}
	return flags
}

// exactWord is ShellWord for texts that must not change: it writes characters that cannot be printed as escapes for bash and
// zsh.
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

// EnqueueStatement returns the SQL statement for a request.
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

// RerunStatement returns the SQL statement that makes a new run from one that has ended.
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

// sqlText returns an SQL literal of any text.
func sqlText(text string) string {
	quoted := strings.ReplaceAll(text, "'", "''")
	if Printable(text) == text {
		return "'" + quoted + "'"
	}
	return "U&'" + escapeUnprintable(strings.ReplaceAll(quoted, `\`, `\\`), `\%04x`) + "'"
}

// sqlJSON returns an SQL literal of a value as JSON.
func sqlJSON(v any) string {
	if v == nil {
		return "'{}'"
	}
	text := escapeUnprintable(CompactJSON(v), `\u%04x`)
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// escapeUnprintable replaces characters that a terminal would obey by an escape with their number. All of them have at most
// four digits.
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
