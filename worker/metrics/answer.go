package metrics

import (
	"context"
	"sync"
	"time"
)

const (
	answerEvery   = 5 * time.Second        // how old an answer may be
	answerTimeout = 500 * time.Millisecond // how long one scrape waits for the database
	scrapeTimeout = 10 * time.Second
)

// answer keeps what the database said to one question, for all scrapes. It keeps a failure, too: while the database is away
// only one scrape in a while waits for it.
type answer[T any] struct {
	asking chan struct{} // holds one token: whoever asks

	mu     sync.Mutex
	at     time.Time // when it was asked last; zero: never
	value  T
	known  bool
	errors int64
}

func newAnswer[T any]() *answer[T] {
	a := &answer[T]{asking: make(chan struct{}, 1)}
	a.asking <- struct{}{}
	return a
}

// ask is the last answer, a new one if that is old. While another asks, nobody waits.
func (a *answer[T]) ask(question func(context.Context) (T, error)) (now T, known bool, errors int64) {
	select {
	case <-a.asking:
		defer func() { a.asking <- struct{}{} }()
		if a.isOld() {
			a.renew(question)
		}
	default:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.value, a.known, a.errors
}

func (a *answer[T]) isOld() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at.IsZero() || time.Since(a.at) >= answerEvery
}

func (a *answer[T]) renew(question func(context.Context) (T, error)) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	value, err := question(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at, a.value, a.known = time.Now(), value, err == nil
	if err != nil {
		a.errors++
	}
}
