package metrics

import (
	"context"
	"sync"
	"time"
)

const (
	answerEvery   = 5 * time.Second        // maximum age of an answer
	answerTimeout = 500 * time.Millisecond // how long a scrape waits for the database
	scrapeTimeout = 10 * time.Second
)

// answer keeps the database's latest answer to one question, for all scrapes. It keeps a failure, too: while the database is
// away, only one scrape in answerEvery waits for it.
type answer[T any] struct {
	asking chan struct{} // holds one token, for the scrape that may ask the database

	mu     sync.Mutex
	at     time.Time // time of the last question; zero: never
	value  T
	known  bool
	errors int64
}

func newAnswer[T any]() *answer[T] {
	a := &answer[T]{asking: make(chan struct{}, 1)}
	a.asking <- struct{}{}
	return a
}

// ask returns the latest answer, and calls question for a new one if that is older than answerEvery. It waits for question, for
// answerTimeout at most. While another scrape asks, ask returns the old answer without waiting. known is false if the latest
// question failed, or none was asked yet; now means nothing then. errors counts all questions that failed.
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
