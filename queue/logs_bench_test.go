package queue

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/internal/procfs"
)

// BenchmarkAppendLogs appends batches of chunks of text on one connection, and does the same by a plain INSERT of the same rows
// into the same table. They take turns. Their ratio is the cost of the fence, the claims and the followers. MB/s are of the text.
// MB/s by CPU time, of this process and the backend together, are what an otherwise idle machine would do, and hardly depend on
// how busy this one is.
func BenchmarkAppendLogs(b *testing.B) {
	for _, batch := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) { benchAppend(b, batch) })
	}
}

const bareInsert = `INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data, final, reason, dropped_bytes, lines)
	SELECT a, b, c, d, e, f, g, h, i, j, k, l, m, n FROM unnest(@days::date[], @chunk_runs::bigint[], @steps::int[], @items::text[], @alts::int[], @attempts::int[], @seqs::int[],
	                     @streams::smallint[], @ats::timestamptz[], @data::bytea[], @finals::bool[], @reasons::text[], @dropped::bigint[], @lines::bigint[]) u (a, b, c, d, e, f, g, h, i, j, k, l, m, n)`

func benchAppend(b *testing.B, batch int) {
	room := newLogBundle(b)
	w := room.writerAt(b, room.login(b, "oarlock_worker"))
	claim := w.hold(b, room.enqueue(b))
	ours, bare := w.begin(b, claim.Run, stepA, 1), w.begin(b, claim.Run, stepB, 1)
	conn := room.db.Conn(b)
	text := logText(32 << 10)
	w.append(b, textChunks(ours, 0, batch, text)...)
	own, twin := meter{pid: w.chunks.server.pid}, meter{pid: int32(conn.PgConn().PID())}
	b.SetBytes(int64(batch * len(text)))
	seq := batch
	for b.Loop() {
		own.run(b, func() { w.append(b, textChunks(ours, seq, batch, text)...) })
		twin.run(b, func() {
			chunks := textChunks(bare, seq, batch, text)
			args := arguments(chunks)
			args["data"] = column(chunks, content)
			args["ats"] = column(chunks, func(c *Chunk) time.Time { return c.At })
			if _, err := conn.Exec(b.Context(), bareInsert, args); err != nil {
				b.Fatal(err)
			}
		})
		seq += batch
	}
	megabytes := float64((seq-batch)*len(text)) / 1e6
	b.ReportMetric(megabytes/own.took.Seconds(), "MB/s-append")
	b.ReportMetric(megabytes/twin.took.Seconds(), "MB/s-bare")
	b.ReportMetric(megabytes/own.cpu.Seconds(), "MB/s-append-cpu")
	b.ReportMetric(megabytes/twin.cpu.Seconds(), "MB/s-bare-cpu")
	b.ReportMetric(twin.cpu.Seconds()/own.cpu.Seconds(), "of-bare-cpu")
}

// BenchmarkLogWindow reads 500 lines from the middle and from the end of a log of 16,000 chunks.
func BenchmarkLogWindow(b *testing.B) {
	w, claim, log := logging(b)
	w.long(b, log, 16_000, 100)
	for name, from := range map[string]int64{"middle": 8_000, "end": 0} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				window(b, w.store, LogWindowQuery{Run: claim.Run, Step: "a", From: from})
			}
		})
	}
}

// meter measures the time of an operation, and its processor time in this process and in a backend.
type meter struct {
	pid       int32
	took, cpu time.Duration
}

func (m *meter) run(b *testing.B, do func()) {
	before, started := m.used(b), time.Now()
	do()
	m.took += time.Since(started)
	m.cpu += m.used(b) - before
}

func (m *meter) used(b *testing.B) time.Duration {
	text, err := os.ReadFile(procfs.Path(int(m.pid), "schedstat"))
	if err != nil {
		b.Skip("the server is not on this machine")
	}
	var backend int64
	if _, err := fmt.Sscan(string(text), &backend); err != nil {
		b.Fatal(err)
	}
	var own unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &own); err != nil {
		b.Fatal(err)
	}
	return time.Duration(backend + own.Utime.Nano() + own.Stime.Nano())
}

func textChunks(l attemptLog, from, n int, text string) []Chunk {
	chunks := make([]Chunk, n)
	for i := range chunks {
		chunks[i] = l.chunk(from+i, text)
	}
	return chunks
}

// logText looks like the output of programs: lines that repeat, with numbers that do not.
func logText(bytes int) string {
	var b strings.Builder
	for b.Len() < bytes {
		fmt.Fprintf(&b, "2026-11-22T00:%02d:%02d.%06dZ level=info msg=\"request handled\" id=%08x path=/v1/items/%d took=%dms\n",
			rand.N(60), rand.N(60), rand.N(1000000), rand.Uint32(), rand.N(100000), rand.N(500))
	}
	return b.String()[:bytes]
}
