package worker

import (
	"fmt"
	"io"
	"testing"

	"github.com/oarlock-dev/oarlock/queue"
)

func TestStatus_TellsARefusedSignOfLifeFromAnUnansweredOne(t *testing.T) {
	t.Parallel()
	var v view
	for _, answer := range []struct {
		err     error
		refusal string
	}{
		{fmt.Errorf("renew: %w", &queue.Error{Code: "25006", Message: "cannot execute UPDATE in a read-only transaction", Hint: "h"}), "cannot execute UPDATE in a read-only transaction (25006)"},
		{io.EOF, ""},
		{nil, ""},
	} {
		v.renewed(0, answer.err)
		if v.status.Refusal != answer.refusal || v.status.RenewErr != answer.err { //nolint:errorlint // the same
			t.Errorf("after %v: refusal %q, error %v", answer.err, v.status.Refusal, v.status.RenewErr)
		}
	}
}
