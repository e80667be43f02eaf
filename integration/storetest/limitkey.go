package storetest

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// limitKey is the key of a run for the limit by key of its DAG.
type limitKey struct {
	definition, text string
	passes           bool // an ancestor counts against the limit with this key, so the run does not
}

// keyOf returns the key of a run that is to be made.
func (m *Memory) keyOf(v *version, given json.RawMessage, labels map[string]string, parent queue.RunID) (*limitKey, error) {
	var plain map[string]any
	if err := json.Unmarshal(given, &plain); err != nil {
		return nil, err
	}
	params, err := v.spec.Params(plain)
	if err != nil {
		return nil, err
	}
	definition := v.dag.current.spec.Concurrency.Key
	text := dagspec.LimitKey(definition, params, labels)
	if len(text) > 200 {
		return nil, refusal(nil, "OA012", "make it of shorter params", "the key of concurrency has at most 200 bytes, not %d", len(text))
	}
	k := &limitKey{definition: definition, text: text}
	for id := parent; id != 0; id = m.runs[id-1].parent {
		p := m.runs[id-1]
		k.passes = k.passes || p.version.dag == v.dag && p.limitKey != nil && *p.limitKey == limitKey{definition: definition, text: text}
	}
	return k, nil
}

// limit returns the limit by key that applies to the runs of a lane, 0 for none.
func (l *lane) limit() int {
	if !l.keyed || !l.owner.keyed {
		return 0
	}
	return l.owner.current.spec.Concurrency.Limit
}

// hasRoom reports whether the limit by key of its lane has room for a run, if the runs in picked begin too.
func (m *Memory) hasRoom(r *run, picked []*run) bool {
	if r.lane.limit() == 0 || r.limitKey.passes {
		return true
	}
	n := 0
	for _, o := range m.runs {
		counts := !o.over() && (o.claim != nil || o.epoch > 0 && o.stage < stageNew)
		if o.version.dag == r.version.dag && (counts || slices.Contains(picked, o)) && o.limitKey != nil && *o.limitKey == *r.limitKey {
			n++
		}
	}
	return n < r.lane.limit()
}

// waitsForKey returns the reason of a run that the limit by key does not let begin, "" for any other run.
func (m *Memory) waitsForKey(r *run) string {
	if r.stage < stageNew || m.hasRoom(r, nil) {
		return ""
	}
	return "waits for key " + r.limitKey.text
}

// pickKeyed returns the due runs of a keyed lane that the limit lets begin, at most so many: the oldest of each key before the second
// of any. It begins behind the key at which the last call for this worker ended.
func (m *Memory) pickKeyed(w *worker, s *shelf, most int) (picked []*run) {
	queues := map[string][]*run{}
	for _, r := range s.runs {
		key := r.limitKey.definition + "\x00" + r.limitKey.text
		switch {
		case !r.isDue(m.now()):
		case !r.limitKey.passes:
			queues[key] = append(queues[key], r)
		case len(picked) < most:
			picked = append(picked, r)
		}
	}
	keys := slices.Sorted(maps.Keys(queues))
	turn, found := slices.BinarySearch(keys, w.turns[s.lane.id])
	if found {
		turn++
	}
	keys = append(keys[turn:len(keys):len(keys)], keys[:turn]...)
	for more := true; more && len(picked) < most; {
		more = false
		for _, key := range keys {
			if waits := queues[key]; len(waits) > 0 && len(picked) < most && m.hasRoom(waits[0], picked) {
				picked, queues[key], more = append(picked, waits[0]), waits[1:], true
				if w.turns == nil {
					w.turns = map[int]string{}
				}
				w.turns[s.lane.id] = key
			}
		}
	}
	return picked
}
