package child

import (
	"encoding/binary"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// MessageType says what a [Message] carries.
type MessageType uint32

const (
	msgError MessageType = 1
	// Started: A is the command's pid, B tells whether signals are scoped.
	Started MessageType = 2
	// ExitedMessage: A is si_code, B si_status of the command (waitid(2)).
	ExitedMessage MessageType = 3
	// Done: nothing of the tree is left; V holds the usage of all of it and the most
	// tasks that were counted, B is 1 if they were too many (see [Plan.Tasks]), C is 1
	// if processes outlived the command and were killed.
	Done MessageType = 4
	// Sample: V holds tasks, private and shared resident bytes of the tree.
	Sample      MessageType = 5
	msgTerminal MessageType = 6
	msgEarly    MessageType = 7
	msgCopied   MessageType = 8

	msgPlan MessageType = 32
	// Signal sends signal A to the command's process group.
	Signal MessageType = 33
	// SignalAll sends signal A to the whole tree.
	SignalAll MessageType = 34
	// End kills the whole tree.
	End MessageType = 35
	// Measure asks for a Sample.
	Measure MessageType = 36
	msgGo   MessageType = 37
	msgCopy MessageType = 38
)

// Message is one datagram between starter and keeper. V of ExitedMessage and
// Done: user and system time in microseconds, peak resident bytes of the
// largest process.
type Message struct {
	Type    MessageType
	A, B, C int32
	V       [6]int64
}

const messageSize = 16 + 6*8

func (m Message) encode() []byte {
	b := make([]byte, 0, messageSize)
	n := binary.NativeEndian
	for _, v := range []uint32{uint32(m.Type), uint32(m.A), uint32(m.B), uint32(m.C)} {
		b = n.AppendUint32(b, v)
	}
	for _, v := range m.V {
		b = n.AppendUint64(b, uint64(v))
	}
	return b
}

func decode(b []byte) Message {
	n := binary.NativeEndian
	m := Message{Type: MessageType(n.Uint32(b)), A: int32(n.Uint32(b[4:])), B: int32(n.Uint32(b[8:])), C: int32(n.Uint32(b[12:]))}
	for i := range m.V {
		m.V[i] = int64(n.Uint64(b[16+8*i:]))
	}
	return m
}

// Send gives the keeper an order. An error means that the keeper is gone.
func (p *Process) Send(m Message) error {
	var err error
	werr := p.raw.Write(func(fd uintptr) bool {
		_, err = unix.SendmsgN(int(fd), m.encode(), nil, nil, unix.MSG_NOSIGNAL)
		return err != unix.EAGAIN
	})
	if werr != nil {
		return werr
	}
	return err
}

// Receive waits for the next message. io.EOF means that the keeper ended.
func (p *Process) Receive() (Message, error) {
	var buf [messageSize]byte
	oob := make([]byte, unix.CmsgSpace(4))
	for {
		var n, oobn int
		var err error
		rerr := p.raw.Read(func(fd uintptr) bool {
			n, oobn, _, _, err = unix.Recvmsg(int(fd), buf[:], oob, unix.MSG_CMSG_CLOEXEC)
			return err != unix.EAGAIN
		})
		switch {
		case rerr != nil:
			return Message{}, rerr
		case err == unix.EINTR:
			continue
		case err == unix.ECONNRESET:
			// The keeper left with an order of ours unread. The kernel says so
			// once, before what the keeper had sent; that is still there.
			continue
		case err != nil:
			return Message{}, err
		case n == 0:
			return Message{}, io.EOF
		case n != messageSize:
			return Message{}, io.ErrUnexpectedEOF
		}
		m := decode(buf[:])
		switch m.Type {
		case msgTerminal:
			p.Terminal = terminal(carried(oob[:oobn]))
			continue
		case msgCopied:
			p.copied = carried(oob[:oobn])
		}
		return m, nil
	}
}

// carried is the descriptor in a message, or -1.
func carried(oob []byte) int {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(msgs) == 0 {
		return -1
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) == 0 {
		return -1
	}
	return fds[0]
}

func terminal(fd int) *os.File {
	if fd < 0 || unix.SetNonblock(fd, true) != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), "terminal")
}
