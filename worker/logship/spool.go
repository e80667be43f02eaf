package logship

import (
	"fmt"
	"os"
	"sync/atomic"
)

// spoolWorth is the least size of a piece that is moved to disk. Moving a smaller piece would free little memory, because most of
// its memory is pieceCost.
const spoolWorth = 4 << 10

// spool keeps pieces in a nameless file, which disappears with the process. Only the loop uses it.
type spool struct {
	dir  string
	most int64
	file *os.File
	end  int64 // of the file
	live int   // number of pieces in the file

	written *atomic.Int64 // total of bytes written
}

// write moves the bytes of a piece to disk: p.data becomes nil, and read gets the bytes back from p.offset. It returns
// errSpoolFull if there is no spool or no room in it. After an error the piece is as before.
func (s *spool) write(p *piece) error {
	if s.dir == "" || s.end+int64(p.size) > s.most {
		return errSpoolFull
	}
	if err := s.open(); err != nil {
		return err
	}
	if _, err := s.file.WriteAt(p.data, s.end); err != nil {
		return fmt.Errorf("spool logs: %w", err)
	}
	p.offset, p.spooled, p.data = s.end, true, nil
	s.end += int64(p.size)
	s.live++
	s.written.Add(int64(p.size))
	return nil
}

func (s *spool) open() error {
	if s.file != nil {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("spool logs: %w", err)
	}
	f, err := os.CreateTemp(s.dir, "logs-*")
	if err != nil {
		return fmt.Errorf("spool logs: %w", err)
	}
	os.Remove(f.Name())
	s.file = f
	return nil
}

// read fills data with the bytes of a piece that lie at offset.
func (s *spool) read(offset int64, data []byte) error {
	if _, err := s.file.ReadAt(data, offset); err != nil {
		return fmt.Errorf("read spooled logs: %w", err)
	}
	return nil
}

// forget removes a piece from the file if it is there. It returns how much memory the caller frees with the piece: only pieceCost
// if its bytes were on disk. When the file has no piece left, it is written from the beginning again.
func (s *spool) forget(p *piece) int64 {
	if !p.spooled {
		return int64(p.size) + pieceCost
	}
	if s.live--; s.live == 0 {
		s.end = 0
		_ = s.file.Truncate(0) // if it fails, the old bytes are overwritten
	}
	return pieceCost
}

func (s *spool) close() {
	if s.file != nil {
		s.file.Close()
	}
}
