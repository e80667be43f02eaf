package signin

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// bcryptHash matches whole hashes. The bcrypt package would also accept truncated hashes, and hashes with text after them.
var bcryptHash = regexp.MustCompile(`^\$2[aby]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}$`)

// Passwords is a file of passwords as htpasswd -B writes it: NAME:HASH on each line, with bcrypt.
type Passwords struct {
	file string

	mu     sync.Mutex
	hashes map[string][]byte
	decoy  []byte    // hash to compare with for an unknown name
	at     time.Time // modification time of the file that was read
	size   int64     // size of the file that was read
}

// ReadPasswords reads a file of passwords. It fails if the file cannot be read, or if a line is wrong.
func ReadPasswords(file string) (*Passwords, error) {
	p := &Passwords{file: file}
	_, err := p.Changed()
	return p, err
}

// Changed reads the file again if its time or its size has changed since it was last read. It then puts the passwords of the file
// in force and returns true. After an error, the old passwords stay in force.
func (p *Passwords) Changed() (bool, error) {
	info, err := os.Stat(p.file)
	if err != nil {
		return false, fmt.Errorf("read passwords: %w", err)
	}
	p.mu.Lock()
	same := p.hashes != nil && info.ModTime().Equal(p.at) && info.Size() == p.size
	p.mu.Unlock()
	if same {
		return false, nil
	}
	text, err := os.ReadFile(p.file)
	if err != nil {
		return false, fmt.Errorf("read passwords: %w", err)
	}
	hashes, err := parsePasswords(text)
	if err != nil {
		return false, fmt.Errorf("%s:%w", p.file, err)
	}
	highest := bcrypt.MinCost
	for _, hash := range hashes {
		cost, _ := bcrypt.Cost(hash) // parsePasswords has checked the hash
		highest = max(highest, cost)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hashes, p.at, p.size = hashes, info.ModTime(), info.Size()
	// The hash is made up, because computing a real one takes as long as a Check.
	p.decoy = fmt.Appendf(nil, "$2a$%02d$%s", highest, strings.Repeat(".", 53))
	return true, nil
}

// parsePasswords parses lines of NAME:HASH, and skips empty lines and lines that begin with #. It refuses a wrong line and a name
// that occurs twice. Its errors begin with the number of the line, and contain none of its text.
func parsePasswords(text []byte) (map[string][]byte, error) {
	hashes := map[string][]byte{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, hash, _ := strings.Cut(line, ":")
		if name == "" || !bcryptHash.MatchString(hash) {
			return nil, fmt.Errorf("%d: this is no NAME:HASH by bcrypt: make the line with `htpasswd -B`", number)
		}
		if hashes[name] != nil {
			return nil, fmt.Errorf("%d: this name stands in a line above, too", number)
		}
		hashes[name] = []byte(hash)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("0: %w", err)
	}
	return hashes, nil
}

// Check reports whether name has this password in the file. It takes as long for an unknown name as for a wrong password, so that
// its duration does not tell which names exist.
func (p *Passwords) Check(name, password string) bool {
	p.mu.Lock()
	hash, known := p.hashes[name]
	if !known {
		hash = p.decoy
	}
	p.mu.Unlock()
	right := bcrypt.CompareHashAndPassword(hash, []byte(password)) == nil
	return known && right
}
