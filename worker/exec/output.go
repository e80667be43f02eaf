package exec

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/plainjson"
	"github.com/oarlock-dev/oarlock/worker"
)

// Limit of outputs besides those of package worker.
const maxFileBytes = 2 << 20 // the file, names and delimiters included

// readOutputs returns the declared outputs of a body as a JSON object, without those that the body did not write, except that an
// optional one is null. It returns "" if no output is declared and the body wrote none. On any error the task ends as
// `failed: output`.
//
// path is the file $OARLOCK_OUTPUT. source returns the text of an output that comes from elsewhere, and false if there is none.
func readOutputs(path string, declared []dagspec.Output, source func(dagspec.Output) (string, bool, error)) (dagrun.JSON, error) {
	text, err := readOutputFile(path)
	if err != nil {
		return "", err
	}
	if len(declared) == 0 && len(text) == 0 {
		return "", nil
	}
	return parseOutputs(string(text), declared, source)
}

// readOutputFile returns the content of the file; nil if it is empty. It returns an error if the body removed the file, replaced it
// by something else than a file, or made it longer than maxFileBytes. It does not wait if the body replaced the file by a pipe, but
// it may wait for a descriptor in patiently.
func readOutputFile(path string) ([]byte, error) {
	var st unix.Stat_t
	if unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size == 0 {
		return nil, nil // most bodies leave it empty
	}
	f, err := patiently(func() (*os.File, error) { return os.OpenFile(path, noWaiting|unix.O_NOFOLLOW, 0) })
	if err != nil && worker.Lacks(err) {
		return nil, fmt.Errorf("read $OARLOCK_OUTPUT: %w", err)
	}
	if err != nil {
		return nil, errors.New("the file $OARLOCK_OUTPUT was removed, or replaced by an object that is not a file")
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("$OARLOCK_OUTPUT was replaced by an object that is not a file")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read $OARLOCK_OUTPUT: %w", err)
	}
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("$OARLOCK_OUTPUT has more than %d bytes: put large data elsewhere, and output the address of the data", maxFileBytes)
	}
	return text, nil
}

// noWaiting are the flags for opening a file of a body: the open does not wait for the writer of a pipe.
const noWaiting = os.O_RDONLY | unix.O_NONBLOCK

// Times for which patiently waits: a body that succeeded must not fail because the worker had no descriptor left when it
// ended.
const (
	outputPause    = 20 * time.Millisecond
	outputPatience = 10 * time.Second
)

// patiently opens something by open. While this host has no descriptor or no memory left, it tries again for outputPatience, since
// other bodies end meanwhile. It returns any other error at once.
func patiently[F any](open func() (F, error)) (F, error) {
	for deadline := time.Now().Add(outputPatience); ; time.Sleep(outputPause) {
		f, err := open()
		if err == nil || !worker.Lacks(err) || time.Now().After(deadline) {
			return f, err
		}
	}
}

// parseOutputs parses `name=value` lines and `name<<END` blocks, takes the other outputs from source, and returns the declared
// outputs as readOutputs does, in their declared order. The error names the line, or the output if its value does not fit its type.
func parseOutputs(text string, declared []dagspec.Output, source func(dagspec.Output) (string, bool, error)) (dagrun.JSON, error) {
	p := &outputParser{rest: text, values: map[string]string{}}
	for p.rest != "" {
		if err := p.entry(declared); err != nil {
			return "", fmt.Errorf("$OARLOCK_OUTPUT line %d: %w", p.line, err)
		}
	}
	object := append(make([]byte, 0, len(text)+64), '{')
	for _, o := range declared {
		value, err := p.output(o, source)
		if err != nil {
			return "", fmt.Errorf("output %s: %w", described(o), err)
		}
		if value == nil {
			continue
		}
		if len(object) > 1 {
			object = append(object, ',')
		}
		object = append(append(object, strconv.Quote(o.Name)...), ':')
		object = append(object, value...)
	}
	return dagrun.JSON(append(object, '}')), nil
}

// described names an output for an error, together with the reference that needs it if the step does not declare it.
func described(o dagspec.Output) string {
	if by := o.NeededBy(); by != "" {
		return o.Name + ", which is needed by " + by
	}
	return o.Name
}

// output returns the value of an output as JSON; nil if the body did not write it and must, and null if it is optional. An optional
// number or json output is also not written if its source is empty.
func (p *outputParser) output(o dagspec.Output, source func(dagspec.Output) (string, bool, error)) ([]byte, error) {
	text, written := p.values[o.Name]
	if o.From != "" {
		var err error
		if text, written, err = source(o); err != nil {
			return nil, err
		}
		if written = written && (text != "" || o.Type == "string" || !o.Optional); written {
			if err := p.check(o, o.From, text); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case written:
		return encodeOutput(o.Type, text)
	case o.Optional:
		return []byte("null"), nil
	}
	return nil, nil
}

type outputParser struct {
	rest   string
	line   int // of the entry, from 1
	read   int // lines read so far
	total  int // bytes of values
	values map[string]string
}

// next removes the next line from the rest and returns it without its newline. The last line may lack its newline.
func (p *outputParser) next() string {
	line, rest, _ := strings.Cut(p.rest, "\n")
	p.rest = rest
	p.read++
	return line
}

func (p *outputParser) entry(declared []dagspec.Output) error {
	p.line = p.read + 1
	line := p.next()
	name, value, block, err := splitEntry(line)
	if err != nil {
		return err
	}
	o, ok := find(declared, name)
	if !ok {
		return fmt.Errorf("%s is not declared: add %[1]s to outputs", strconv.Quote(name))
	}
	if o.From != "" {
		return fmt.Errorf("%s comes from %s: remove the line, or the from of this output", name, o.From)
	}
	if _, twice := p.values[name]; twice {
		return fmt.Errorf("%s was written already: an output has one value", name)
	}
	if block {
		if value, err = p.block(name, value); err != nil {
			return err
		}
	}
	p.values[name] = value
	return p.check(o, name, value)
}

// splitEntry splits a line at its first = or <<, whichever comes first. For <<, block is true, and value is the line that ends the
// block. It returns an error if the line has neither, or ends with the <<.
func splitEntry(line string) (name, value string, block bool, err error) {
	equals, heredoc := strings.IndexByte(line, '='), strings.Index(line, "<<")
	switch {
	case equals < 0 && heredoc < 0:
		return "", "", false, fmt.Errorf("%s is neither name=value nor name<<END", excerpt(line))
	case heredoc < 0 || equals >= 0 && equals < heredoc:
		return line[:equals], line[equals+1:], false, nil
	case line[heredoc+2:] == "":
		return "", "", false, fmt.Errorf("%s has no end marker: write name<<END, the lines, and a line END", excerpt(line))
	}
	return line[:heredoc], line[heredoc+2:], true, nil
}

// block removes the lines of a block from the rest, with the line that ends it, which must equal end. It returns the lines before
// that one, without their last newline. It returns an error if no line equals end. name is the output, for the error.
func (p *outputParser) block(name, end string) (string, error) {
	start := p.rest
	for p.rest != "" {
		before := len(start) - len(p.rest)
		if p.next() == end {
			return strings.TrimSuffix(start[:before], "\n"), nil
		}
	}
	return "", fmt.Errorf("the block of %s has no end: no line is %s", name, excerpt(end))
}

// maxBytes returns the limit of the text of an output.
func maxBytes(o dagspec.Output) int {
	if o.Type == "json" {
		return worker.MaxJSONBytes
	}
	return worker.MaxTextBytes
}

// check returns an error if the text of an output cannot be stored. The error calls the text what.
func (p *outputParser) check(o dagspec.Output, what, value string) error {
	p.total += len(value)
	switch {
	case len(value) > maxBytes(o):
		return fmt.Errorf("%s has %d bytes, at most %d: put large data elsewhere, and output the address of the data", what, len(value), maxBytes(o))
	case p.total > worker.MaxOutputBytes:
		return fmt.Errorf("the outputs have more than %d bytes: put large data elsewhere, and output the address of the data", worker.MaxOutputBytes)
	case strings.IndexByte(value, 0) >= 0:
		return fmt.Errorf("%s holds a NUL byte, which Postgres cannot store: encode the value, for example with base64", what)
	case !utf8.ValidString(value):
		return fmt.Errorf("%s is not UTF-8: convert or encode the value", what)
	}
	return nil
}

func find(declared []dagspec.Output, name string) (dagspec.Output, bool) {
	for _, o := range declared {
		if o.Name == name {
			return o, true
		}
	}
	return dagspec.Output{}, false
}

// encodeOutput returns the value of an output of a type as JSON. It returns an error if the text is no value of that type.
func encodeOutput(kind, text string) ([]byte, error) {
	switch kind {
	case "number":
		return encodeNumber(text)
	case "json":
		return encodeJSON(text)
	}
	return plainjson.Compact(text)
}

// encodeNumber returns a number in its shortest form. A number without fraction and exponent keeps all its digits; others are
// rounded to float64, and every zero is 0. It returns an error if text is anything but a number as JSON has them, or out of the
// range of float64.
func encodeNumber(text string) ([]byte, error) {
	wrong := fmt.Errorf("%s is not a number as JSON writes them", excerpt(text))
	if text == "" || text != strings.TrimSpace(text) || !json.Valid([]byte(text)) || !strings.ContainsAny(text[:1], "-0123456789") {
		return nil, wrong
	}
	f, err := inRange(text)
	switch {
	case err != nil:
		return nil, err
	case f == 0:
		return []byte("0"), nil
	case !strings.ContainsAny(text, ".eE"):
		return []byte(text), nil
	}
	return plainjson.Compact(f)
}

// inRange returns the float64 that is nearest to a number. It returns an error if that is infinity, or is zero although the number
// is not.
func inRange(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
	if err != nil || f == 0 && strings.ContainsAny(mantissa, "123456789") {
		return 0, fmt.Errorf("the number %s is out of range", excerpt(text))
	}
	return f, nil
}

// encodeJSON returns a JSON document without spaces. Numbers keep their digits. It returns an error if text is not exactly one
// document, is nested too deeply, or has a value that Postgres cannot store.
func encodeJSON(text string) ([]byte, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not JSON: text follows the value")
	}
	if err := dagspec.CheckDepth(dagrun.JSON(text)); err != nil {
		return nil, err
	}
	if err := storable(value); err != nil {
		return nil, err
	}
	return plainjson.Compact(value)
}

// storable returns an error if a value that was decoded from JSON cannot be stored in Postgres: it has \u0000 in a text or a key,
// or a number that is out of range.
func storable(value any) error {
	switch x := value.(type) {
	case string:
		if strings.IndexByte(x, 0) >= 0 {
			return errors.New(`the value holds \u0000, which Postgres cannot store: encode the value`)
		}
	case json.Number:
		_, err := inRange(x.String())
		return err
	case []any:
		for _, item := range x {
			if err := storable(item); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, item := range x {
			if err := errors.Join(storable(key), storable(item)); err != nil {
				return err
			}
		}
	}
	return nil
}

// excerpt quotes a text for a message, and cuts it after 40 bytes.
func excerpt(text string) string {
	const most = 40
	if len(text) > most {
		return strconv.Quote(text[:most]) + "…"
	}
	return strconv.Quote(text)
}
