package worker

import (
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

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
		{fmt.Errorf("renew: connect: %w", &pgconn.PgError{Code: "53300", Message: "too many connections for role \"ana\""}), "too many connections"},
		{io.EOF, ""},
		{nil, ""},
	} {
		v.renewed(0, answer.err)
		if v.status.Refusal != answer.refusal || v.status.RenewErr != answer.err { //nolint:errorlint // the same
			t.Errorf("after %v: refusal %q, error %v", answer.err, v.status.Refusal, v.status.RenewErr)
		}
	}
}
