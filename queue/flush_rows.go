package queue

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// flushRows is an array of one of the flush_… row types, in Postgres' binary form. It is filled column by column in the
// order of the type: row, then a call per column. By hand, because the driver's own encoding would box every value.
type flushRows struct {
	elem    uint32 // oid of the row type, as this database numbers it
	columns int
	buf     []byte
	count   int
	begun   int // where the length of the row under way stands
}

const arrayHeaderBytes = 20

func (r *flushRows) reset() {
	r.buf, r.count = append(r.buf[:0], make([]byte, arrayHeaderBytes)...), 0
}

// row begins the next row.
func (r *flushRows) row() {
	r.endRow()
	r.count++
	r.begun = len(r.buf)
	r.buf = binary.BigEndian.AppendUint32(r.buf, 0)
	r.buf = binary.BigEndian.AppendUint32(r.buf, uint32(r.columns))
}

func (r *flushRows) endRow() {
	if r.count > 0 {
		binary.BigEndian.PutUint32(r.buf[r.begun:], uint32(len(r.buf)-r.begun-4))
	}
}

// param is the array as an argument; null without rows, which is cheaper to read than an empty one.
func (r *flushRows) param() []byte {
	if r.count == 0 {
		return nil
	}
	r.endRow()
	putArrayHeader(r.buf, r.elem, r.count)
	return r.buf
}

func putArrayHeader(buf []byte, elem uint32, count int) {
	binary.BigEndian.PutUint32(buf, 1)        // dimensions
	binary.BigEndian.PutUint32(buf[4:], 0)    // no nulls
	binary.BigEndian.PutUint32(buf[8:], elem) // of what
	binary.BigEndian.PutUint32(buf[12:], uint32(count))
	binary.BigEndian.PutUint32(buf[16:], 1) // lower bound
}

func (r *flushRows) head(oid uint32, size int) {
	r.buf = binary.BigEndian.AppendUint32(r.buf, oid)
	r.buf = binary.BigEndian.AppendUint32(r.buf, uint32(size))
}

func (r *flushRows) null(oid uint32) {
	r.buf = binary.BigEndian.AppendUint32(r.buf, oid)
	r.buf = binary.BigEndian.AppendUint32(r.buf, math.MaxUint32)
}

func (r *flushRows) int(v int64) {
	r.head(pgtype.Int8OID, 8)
	r.buf = binary.BigEndian.AppendUint64(r.buf, uint64(v))
}

func (r *flushRows) intIf(is bool, v int64) {
	if is {
		r.int(v)
	} else {
		r.null(pgtype.Int8OID)
	}
}

func (r *flushRows) bool(v bool) {
	r.head(pgtype.BoolOID, 1)
	if v {
		r.buf = append(r.buf, 1)
	} else {
		r.buf = append(r.buf, 0)
	}
}

func (r *flushRows) text(s string) {
	r.head(pgtype.TextOID, len(s))
	r.buf = append(r.buf, s...)
}

// textOrNull keeps "" as null.
func (r *flushRows) textOrNull(s string) {
	if s == "" {
		r.null(pgtype.TextOID)
	} else {
		r.text(s)
	}
}

func (r *flushRows) bytes(b []byte) {
	r.head(pgtype.ByteaOID, len(b))
	r.buf = append(r.buf, b...)
}

func (r *flushRows) uuid(id uuid.UUID) {
	r.head(pgtype.UUIDOID, len(id))
	r.buf = append(r.buf, id[:]...)
}

// json keeps "" as null.
func (r *flushRows) json(s string) {
	if s == "" {
		r.null(pgtype.JSONBOID)
		return
	}
	r.head(pgtype.JSONBOID, len(s)+1)
	r.buf = append(r.buf, 1) // version of the format
	r.buf = append(r.buf, s...)
}

// Postgres counts from the year 2000.
const (
	epochMillis  = 946_684_800_000
	dayMillis    = 24 * 60 * 60 * 1000
	latestMillis = math.MaxInt64/1000 - epochMillis // about the year 292,000
)

// time keeps 0 as null. Milliseconds come back exactly.
func (r *flushRows) time(t dagrun.Time) {
	if t == 0 {
		r.null(pgtype.TimestamptzOID)
		return
	}
	r.head(pgtype.TimestamptzOID, 8)
	micros := int64(math.MaxInt64 - 1) // which is refused as out of range
	if -latestMillis < t && t < latestMillis {
		micros = (int64(t) - epochMillis) * 1000
	}
	r.buf = binary.BigEndian.AppendUint64(r.buf, uint64(micros))
}

// timestamp of a chunk, which has one.
func (r *flushRows) timestamp(t time.Time) {
	r.head(pgtype.TimestamptzOID, 8)
	r.buf = binary.BigEndian.AppendUint64(r.buf, uint64(t.UnixMicro()-epochMillis*1000))
}

// logDay is LogDay of a time, null where there is none.
func (r *flushRows) logDay(t dagrun.Time) {
	if t == 0 {
		r.null(pgtype.DateOID)
		return
	}
	r.day((int64(t) - epochMillis - mod(int64(t), dayMillis)) / dayMillis)
}

// date is a day given as a time of it.
func (r *flushRows) date(t time.Time) {
	day := t.UnixMilli()
	r.day((day - epochMillis - mod(day, dayMillis)) / dayMillis)
}

func (r *flushRows) day(days int64) {
	r.head(pgtype.DateOID, 4)
	r.buf = binary.BigEndian.AppendUint32(r.buf, uint32(int32(max(min(days, math.MaxInt32-1), math.MinInt32+1))))
}

// mod is never negative.
func mod(a, b int64) int64 { return (a%b + b) % b }
