package runview

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

func TestQuestionLines_AreHarmlessAndFew(t *testing.T) {
	t.Parallel()
	got := QuestionLines(&queue.Question{Prompt: "\nOne\x1b[2J\r\ntwo\u202e\n", Inputs: []dagspec.Param{{Name: "ticket", Type: "string", Required: true}, {Name: "note", Type: "string"}}})
	if diff := cmp.Diff([]string{"One\ufffd[2J", "two\ufffd", "inputs: ticket (required), note"}, got); diff != "" {
		t.Error(diff)
	}
	got = QuestionLines(&queue.Question{Inputs: []dagspec.Param{
		{Name: "n", Type: "integer", Minimum: new(1.0), Maximum: new(2.5), Description: "How many.\n"},
		{Name: "code", Type: "string", MinLength: new(1), MaxLength: new(3), Pattern: "^[A-Z]+$", Required: true},
	}})
	if diff := cmp.Diff([]string{"inputs: n (integer, at least 1, at most 2.5): How many, code (at least 1 character, at most 3 characters, like ^[A-Z]+$, required)"}, got); diff != "" {
		t.Error(diff)
	}
	if got := QuestionLines(&queue.Question{}); len(got) > 0 {
		t.Errorf("it asks nothing, but %q", got)
	}
	got = QuestionLines(&queue.Question{Prompt: strings.Repeat("line\n", promptLinesMax+3)})
	if len(got) != promptLinesMax+1 || got[promptLinesMax] != "… 3 more lines" {
		t.Errorf("of a long prompt %q", got)
	}
}

func TestDeciders_NameWhoMay(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"app, a member of oarlock_approve or an administrator":           Deciders(nil, "app"),
		"the submitter, a member of oarlock_approve or an administrator": Deciders(nil, ""),
		"boss":      Deciders([]string{"boss"}, "app"),
		"a, b or c": Deciders([]string{"a", "b", "c"}, "app"),
	} {
		if got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
