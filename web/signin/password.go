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

// bcryptHash is what is compared to the end, whatever the password. The bcrypt package takes hashes that are cut short, or have more behind.
var bcryptHash = regexp.MustCompile(`^\$2[aby]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}$`)

// Passwords are those of a file as htpasswd -B writes it: NAME:HASH on each line, by bcrypt.
type Passwords struct {
	file string

	mu     sync.Mutex
	hashes map[string][]byte
	decoy  []byte    // what a password is compared with where there is no such name
	at     time.Time // when the file was changed last, of what was read
	size   int64     // of the file then
}

// ReadPasswords reads a file of passwords.
func ReadPasswords(file string) (*Passwords, error) {
	p := &Passwords{file: file}
	_, err := p.Changed()
	return p, err
}

// Changed reads the file again where somebody changed it, and reports whether that is so. What was read before stays in force
// when it fails.
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
		cost, _ := bcrypt.Cost(hash) // parsePasswords has looked
		highest = max(highest, cost)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hashes, p.at, p.size = hashes, info.ModTime(), info.Size()
	p.decoy = fmt.Appendf(nil, "$2a$%02d$%s", highest, strings.Repeat(".", 53)) // made up: to compute one takes as long as a Check
	return true, nil
}

// parsePasswords reads lines of NAME:HASH. Its errors begin with the number of the line, and show none of it.
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

// Check reports whether a password is that of a name. A name that there is not takes as long as a password that is wrong.
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
