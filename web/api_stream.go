package web

import (
	"context"
	"fmt"
	"net/http"

	"github.com/oarlock-dev/oarlock/internal/runview"
)

// apiStream sends the run as JSON at first and after each change, as events of a stream. The stream ends with the run, or when the
// client disconnects. All streams of a run share one reader of the database.
func (s *server) apiStream(w http.ResponseWriter, r *http.Request) error {
	id, err := apiRunID(r)
	if err != nil {
		return err
	}
	if _, err := s.store.Get(r.Context(), id); err != nil {
		return err
	}
	return s.stream(w, r, liveSource{key: fmt.Sprintf("api run %d", id), run: id, read: func(ctx context.Context) (*liveView, error) {
		run, err := s.store.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		text, err := runview.EncodeJSON(runview.NewRunJSON(run))
		if err != nil {
			return nil, err
		}
		return &liveView{
			event: "run", regions: map[string]string{"run": text}, order: []string{"run"}, over: run.Over(),
		}, nil
	}})
}
