package postgres

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/plainjson"
)

// types has the types of Postgres, by which decode recognises arrays and their elements. Nothing changes it.
var types = pgtype.NewMap()

// decode turns a value in the server's text format into JSON; nil is NULL, and becomes null. oid is the type of the value. A value
// of a type that JSON lacks becomes a string. The error means that a JSON value has \u0000.
func decode(oid uint32, value []byte) (json.RawMessage, error) {
	if value == nil {
		return json.RawMessage("null"), nil
	}
	switch oid {
	case pgtype.BoolOID:
		return json.RawMessage(map[bool]string{true: "true", false: "false"}[string(value) == "t"]), nil
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.OIDOID, pgtype.Float4OID, pgtype.Float8OID, pgtype.NumericOID:
		if json.Valid(value) { // NaN and Infinity are not valid JSON, and become strings
			return bytes.Clone(value), nil
		}
	case pgtype.JSONOID, pgtype.JSONBOID:
		return compacted(value)
	case pgtype.TimestampOID, pgtype.TimestamptzOID:
		return plainjson.Compact(instant(string(value)))
	}
	if t, ok := types.TypeForOID(oid); ok {
		if codec, ok := t.Codec.(*pgtype.ArrayCodec); ok {
			return list(oid, codec.ElementType.OID, value)
		}
	}
	return plainjson.Compact(string(value))
}

// compacted returns a JSON value without spaces. It returns an error for a value with \u0000, which no output can hold.
func compacted(value []byte) (json.RawMessage, error) {
	if hasNUL(value) {
		return nil, errors.New(`the value holds \u0000, which no output can hold`)
	}
	var b bytes.Buffer
	err := json.Compact(&b, value)
	return b.Bytes(), err
}

// hasNUL reports whether JSON contains \u0000. An escaped backslash before u0000 does not count.
func hasNUL(value []byte) bool {
	for rest := value; ; {
		i := bytes.IndexByte(rest, '\\')
		if i < 0 || i+1 >= len(rest) {
			return false
		}
		if bytes.HasPrefix(rest[i:], []byte(`\u0000`)) {
			return true
		}
		rest = rest[i+2:]
	}
}

// instant returns a timestamp in the format of RFC 3339, as Postgres writes timestamps in JSON. text is a timestamp in the format
// ISO of Postgres. A text without a time, such as infinity, stays as it is.
func instant(text string) string {
	day, rest, ok := strings.Cut(text, " ")
	if !ok || rest == "BC" {
		return text // also infinity and -infinity
	}
	clock, era, _ := strings.Cut(rest, " ")
	if i := strings.LastIndexAny(clock, "+-"); i >= 0 && len(clock)-i == len("+00") {
		clock += ":00"
	}
	if era != "" {
		clock += " " + era
	}
	return day + "T" + clock
}

// list returns an array as a JSON list, nested for each further dimension. oid is the type of the array, element the type of its
// elements, and value its text. A text that cannot be parsed becomes a JSON string.
func list(oid, element uint32, value []byte) (json.RawMessage, error) {
	var a pgtype.Array[pgtype.Text]
	if err := types.Scan(oid, pgtype.TextFormatCode, value, &a); err != nil {
		return plainjson.Compact(string(value))
	}
	var b bytes.Buffer
	if len(a.Dims) == 0 {
		return json.RawMessage("[]"), nil
	}
	_, err := dimension(&b, a.Dims, a.Elements, element)
	return b.Bytes(), err
}

// dimension writes the first dimension of an array to b, with the further dimensions in it, and returns the elements that it did
// not write. oid is the type of the elements.
func dimension(b *bytes.Buffer, dims []pgtype.ArrayDimension, elements []pgtype.Text, oid uint32) (rest []pgtype.Text, err error) {
	b.WriteByte('[')
	for i := range dims[0].Length {
		if i > 0 {
			b.WriteByte(',')
		}
		if len(dims) > 1 {
			if elements, err = dimension(b, dims[1:], elements, oid); err != nil {
				return nil, err
			}
			continue
		}
		var raw []byte
		if elements[0].Valid {
			raw = []byte(elements[0].String)
		}
		value, err := decode(oid, raw)
		if err != nil {
			return nil, err
		}
		b.Write(value)
		elements = elements[1:]
	}
	b.WriteByte(']')
	return elements, nil
}

// declared returns the value of an output that the step declares, as JSON: the column of that name in the first row. It returns an
// error if there is no such column, or if the output is a number and the value is not, and errNoRow if there is no row.
func (r *rows) declared(o dagspec.Output) (json.RawMessage, error) {
	for i, c := range r.columns {
		if c.Name != o.Name {
			continue
		}
		switch {
		case r.first == nil:
			return nil, errNoRow
		case r.first[i] == nil:
			return json.RawMessage("null"), nil
		case o.Type == "string":
			return plainjson.Compact(string(r.first[i]))
		}
		value, err := decode(c.DataTypeOID, r.first[i])
		if err == nil && o.Type == "number" && !isNumber(value) {
			return nil, fmt.Errorf("the column is no number")
		}
		return value, err
	}
	return nil, errors.New("the last statement returns no column of that name")
}

var errNoRow = errors.New("the last statement returned no row")

func isNumber(value json.RawMessage) bool {
	var n json.Number
	return value[0] != '"' && json.Unmarshal(value, &n) == nil
}
