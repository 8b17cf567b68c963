package keyring

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"remit/proof/attest"
)

// What is spoken with an ssh-agent (draft-miller-ssh-agent): two requests, their
// answers, and the bound of an answer in bytes.
const (
	agentIdentities       = 11
	agentIdentitiesAnswer = 12
	agentSignRequest      = 13
	agentSignAnswer       = 14
	maxAgentAnswer        = 256 << 10
	// agentPatience is how long a person has who confirms each use of a key.
	agentPatience = 2 * time.Minute
)

var errAgentAnswer = errors.New("the ssh-agent's answer is not understood")

// agentHolds reports whether the user's ssh-agent holds a key. Without an agent
// it does not.
func agentHolds(ctx context.Context, key attest.PublicKey) (bool, error) {
	if os.Getenv("SSH_AUTH_SOCK") == "" {
		return false, nil
	}
	answer, err := askAgent(ctx, []byte{agentIdentities}, agentIdentitiesAnswer)
	if err != nil {
		return false, err
	}
	if len(answer) < 4 {
		return false, errAgentAnswer
	}
	n, rest := binary.BigEndian.Uint32(answer), answer[4:]
	for range n {
		blob, after, err := agentField(rest)
		if err != nil {
			return false, err
		}
		if bytes.Equal(blob, key.Blob()) {
			return true, nil
		}
		if _, rest, err = agentField(after); err != nil { // the comment
			return false, err
		}
	}
	return false, nil
}

// agentSign returns the raw signature of data by a key that the agent holds.
func agentSign(ctx context.Context, key attest.PublicKey, data []byte) ([]byte, error) {
	request := appendField([]byte{agentSignRequest}, key.Blob())
	request = binary.BigEndian.AppendUint32(appendField(request, data), 0) // no flags
	answer, err := askAgent(ctx, request, agentSignAnswer)
	if err != nil {
		return nil, err
	}
	signature, rest, err := agentField(answer)
	if err != nil || len(rest) > 0 {
		return nil, errAgentAnswer
	}
	_, signature, err = agentField(signature) // the kind of key
	if err != nil {
		return nil, err
	}
	raw, rest, err := agentField(signature)
	if err != nil || len(rest) > 0 || len(raw) != ed25519.SignatureSize {
		return nil, errAgentAnswer
	}
	return raw, nil
}

// askAgent sends a message and returns the answer behind its kind.
func askAgent(ctx context.Context, request []byte, kind byte) (answer []byte, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("asking the ssh-agent: %w", err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, agentPatience)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", os.Getenv("SSH_AUTH_SOCK"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends the read below
	defer stop()
	if _, err := conn.Write(appendField(nil, request)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n == 0 || n > maxAgentAnswer {
		return nil, errAgentAnswer
	}
	answer = make([]byte, n)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return nil, err
	}
	if answer[0] != kind {
		return nil, errors.New("it refused")
	}
	return answer[1:], nil
}

// agentField reads a length and as many bytes.
func agentField(from []byte) (field, rest []byte, err error) {
	if len(from) < 4 {
		return nil, nil, errAgentAnswer
	}
	n := binary.BigEndian.Uint32(from)
	if uint64(n) > uint64(len(from)-4) {
		return nil, nil, errAgentAnswer
	}
	return from[4 : 4+n], from[4+n:], nil
}

func appendField(to, field []byte) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(field))), field...)
}
