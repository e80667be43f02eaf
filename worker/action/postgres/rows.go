package postgres

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/plainjson"
)

// rows collects the rows of a query's last statement, in the format of the step.
type rows struct {
	query    *query
	columns  []pgconn.FieldDescription
	repeated string // name that two columns share; "": none
	count    int
	affected int64
	text     bytes.Buffer
	first    [][]byte // values of the first row; nil: there is none
}

// begin takes the columns, before the statement is executed, and writes the header if the format is CSV. It returns an error if two
// columns have the same name, which only CSV allows.
func (r *rows) begin(columns []pgconn.FieldDescription) error {
	r.columns = append(r.columns, columns...)
	seen := map[string]bool{}
	for _, c := range columns {
		if seen[c.Name] {
			r.repeated = c.Name
		}
		seen[c.Name] = true
	}
	if r.repeated != "" && r.query.format != "csv" {
		return tooMuch("two columns have the name %s: give one column another name with AS", r.repeated)
	}
	if len(columns) > 0 && r.query.format == "csv" {
		header := make([][]byte, len(columns))
		for i, c := range columns {
			header[i] = []byte(c.Name)
		}
		return r.line(header)
	}
	return nil
}

// add writes a row to the text, and keeps a copy of the first one. It returns an error if the row is one too many, makes the text
// too long, or is not UTF-8.
func (r *rows) add(values [][]byte) error {
	if r.count++; r.count > r.query.maxRows {
		return tooMuch("there are more than %d rows: select fewer rows, or raise with.max_rows", r.query.maxRows)
	}
	for i, v := range values {
		if !utf8.Valid(v) {
			return tooMuch("column %s is no text in UTF-8: encode the column in the statement", r.columns[i].Name)
		}
	}
	if r.count == 1 {
		r.keep(values)
	}
	if err := r.write(values); err != nil {
		return err
	}
	if r.text.Len() > r.query.maxBytes {
		return tooMuch("the rows have more than %d bytes: select less%s", r.query.maxBytes, r.advice())
	}
	return nil
}

func (r *rows) advice() string {
	if r.query.format == "" {
		return ", or write the rows into the log with with.format"
	}
	return ", or raise with.max_bytes"
}

// keep copies a row to r.first, because the driver reuses its buffer.
func (r *rows) keep(values [][]byte) {
	r.first = make([][]byte, len(values))
	for i, v := range values {
		r.first[i] = bytes.Clone(v)
	}
}

// write adds a row to the text, in the format of the step. With the first row it begins a JSON list, which finished ends.
func (r *rows) write(values [][]byte) error {
	switch r.query.format {
	case "csv":
		return r.line(values)
	case "jsonl":
		defer r.text.WriteByte('\n')
	case "json":
		r.text.WriteString(map[bool]string{true: "[\n", false: ",\n"}[r.count == 1])
	default:
		r.text.WriteString(map[bool]string{true: "[", false: ","}[r.count == 1])
	}
	return r.object(&r.text, values)
}

// line writes a row to the text as CSV. NULL becomes an empty field, as an empty text does.
func (r *rows) line(values [][]byte) error {
	record := make([]string, len(values))
	for i, v := range values {
		record[i] = string(v)
	}
	w := csv.NewWriter(&r.text)
	if err := w.Write(record); err != nil {
		return tooMuch("%v", err)
	}
	w.Flush()
	return w.Error()
}

// object writes a row to b as a JSON object, with the columns in order. The error names the column with a value that cannot be an
// output.
func (r *rows) object(b *bytes.Buffer, values [][]byte) error {
	for i, v := range values {
		b.WriteByte("{,"[min(i, 1)])
		name, err := plainjson.Compact(r.columns[i].Name)
		if err != nil {
			return err
		}
		b.Write(name)
		b.WriteByte(':')
		value, err := decode(r.columns[i].DataTypeOID, v)
		if err != nil {
			return tooMuch("column %s: %v", r.columns[i].Name, err)
		}
		b.Write(value)
	}
	if len(values) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return nil
}

// finished ends the text of the rows, for example with the bracket of a JSON list, and returns it. Call it once, after the last
// row.
func (r *rows) finished() []byte {
	switch f := r.query.format; {
	case (f == "" || f == "json") && r.count == 0:
		r.text.WriteString("[]")
	case f == "":
		r.text.WriteByte(']')
	case f == "json":
		r.text.WriteString("\n]")
	}
	if r.query.format == "json" {
		r.text.WriteByte('\n')
	}
	return r.text.Bytes()
}

// outputs returns the outputs of the task: the rows (unless they go to the log), their number, the first row (unless two columns
// share a name), and the declared outputs, which are columns of the first row. An optional one is null without a row. If
// the rows are an output, it calls finished. It returns an error if another declared output has no value, or all of them together are
// too large.
func (r *rows) outputs(declared []dagspec.Output) (dagrun.JSON, error) {
	out := map[string]json.RawMessage{}
	if r.query.format == "" {
		out["rows"] = r.finished()
	}
	out["row_count"] = fmt.Append(nil, max(r.affected, int64(r.count)))
	if r.first != nil && r.repeated == "" {
		var b bytes.Buffer
		if err := r.object(&b, r.first); err != nil {
			return "", err
		}
		out["first"] = b.Bytes()
	}
	for _, o := range declared {
		if _, given := out[o.Name]; given {
			continue
		}
		value, err := r.declared(o)
		if o.Optional && errors.Is(err, errNoRow) {
			value, err = json.RawMessage("null"), nil
		}
		if err != nil {
			return "", tooMuch("output %s: %v", o.Name, err)
		}
		out[o.Name] = value
	}
	text, err := plainjson.Compact(out)
	if err == nil && len(text) > maxOutputBytes {
		err = tooMuch("the outputs have more than %d bytes: select less%s", maxOutputBytes, r.advice())
	}
	return dagrun.JSON(text), err
}

// tooMuch returns a failure of kind output for rows that cannot be outputs. It formats its text as fmt.Sprintf does.
func tooMuch(format string, args ...any) error {
	return &failure{kind: dagrun.KindOutput, reason: fmt.Sprintf(format, args...)}
}
