package dagrun

import (
	"strings"
	"testing"
)

// A store accepts every prompt: the core bounds its length and replaces invalid text.
func TestApproval_APromptIsBoundedAndFitToBeStored(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", MaxPromptBytes)
	for prompt, want := range map[string]string{
		"Well?":                               "Well?",
		"a\x00b\xffc":                         "a\ufffdb\ufffdc",
		strings.Repeat("x", MaxPromptBytes):   strings.Repeat("x", MaxPromptBytes),
		strings.Repeat("x", MaxPromptBytes+1): strings.Repeat("x", MaxPromptBytes-len(cutMark)) + cutMark,
		long:                                  long[:MaxPromptBytes-len(cutMark)-1] + cutMark,
	} {
		s := spec("a approval")
		s.Steps[0].Approval = &Approval{Prompt: text(prompt)}
		ready, _ := begun(t, s).Ready()
		asks := ready.Records.Tasks[0].Asks
		if asks == nil || !asks.Open || asks.Prompt != want || len(asks.Prompt) > MaxPromptBytes {
			t.Errorf("of %.20q, %d bytes, it asks %+v", prompt, len(prompt), asks)
		}
	}
}
