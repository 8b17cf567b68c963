package keyring

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
)

// A sealed seed is an ed25519 private key as an encrypted PKCS #8 file (RFC 5958,
// RFC 8018): PBES2 with PBKDF2-HMAC-SHA-256 and AES-256-CBC. `openssl pkey` and
// ssh-keygen read it. Nothing else is read here: no other cipher or derivation,
// and no count of iterations outside the bounds.
const (
	sealedArmor = "ENCRYPTED PRIVATE KEY"
	// sealIterations is what OWASP recommends for PBKDF2 with SHA-256.
	sealIterations    = 600_000
	minSealIterations = 100_000
	maxSealIterations = 5_000_000
	maxSalt           = 64
)

var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
	oidSHA256 = asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 9} // hmacWithSHA256
	oidAES256 = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 42}
)

// seedPrefix is what stands before the seed in the PKCS #8 form of an ed25519
// key (RFC 8410, section 7).
var seedPrefix = []byte{0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20}

type sealedKey struct {
	Algorithm struct {
		ID     asn1.ObjectIdentifier
		Params struct {
			Derivation struct {
				ID     asn1.ObjectIdentifier
				Params struct {
					Salt       []byte
					Iterations int
					PRF        struct {
						ID     asn1.ObjectIdentifier
						Params asn1.RawValue
					}
				}
			}
			Cipher struct {
				ID asn1.ObjectIdentifier
				IV []byte
			}
		}
	}
	Data []byte
}

func sealSeed(seed, passphrase []byte, random io.Reader) ([]byte, error) {
	var salt, iv [aes.BlockSize]byte
	for _, b := range [][]byte{salt[:], iv[:]} {
		if _, err := io.ReadFull(random, b); err != nil {
			return nil, fmt.Errorf("sealing a key: %w", err)
		}
	}
	var k sealedKey
	p := &k.Algorithm.Params
	k.Algorithm.ID, p.Derivation.ID, p.Cipher.ID, p.Cipher.IV = oidPBES2, oidPBKDF2, oidAES256, iv[:]
	d := &p.Derivation.Params
	d.Salt, d.Iterations, d.PRF.ID, d.PRF.Params = salt[:], sealIterations, oidSHA256, asn1.NullRawValue
	mode, err := k.block(passphrase)
	if err != nil {
		return nil, err
	}
	plain := append(bytes.Clone(seedPrefix), seed...)
	pad := aes.BlockSize - len(plain)%aes.BlockSize
	plain = append(plain, bytes.Repeat([]byte{byte(pad)}, pad)...)
	k.Data = make([]byte, len(plain))
	cipher.NewCBCEncrypter(mode, iv[:]).CryptBlocks(k.Data, plain)
	der, err := asn1.Marshal(k)
	if err != nil {
		return nil, fmt.Errorf("sealing a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: sealedArmor, Bytes: der}), nil
}

// block derives the key of the cipher from the passphrase.
func (k *sealedKey) block(passphrase []byte) (cipher.Block, error) {
	d := k.Algorithm.Params.Derivation.Params
	derived, err := pbkdf2.Key(sha256.New, string(passphrase), d.Salt, d.Iterations, 32)
	if err != nil {
		return nil, fmt.Errorf("deriving a key from the passphrase: %w", err)
	}
	return aes.NewCipher(derived)
}

// openSeed returns the seed of a sealed key. A wrong passphrase is an error, or
// rarely another seed: the caller compares the public key.
func openSeed(text, passphrase []byte) ([]byte, error) {
	var k sealedKey
	block, rest := pem.Decode(text)
	if block == nil || block.Type != sealedArmor || len(block.Headers) > 0 || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("the approval key's file is not one encrypted private key")
	}
	if rest, err := asn1.Unmarshal(block.Bytes, &k); err != nil || len(rest) > 0 {
		return nil, errors.New("the approval key's file is damaged, or encrypted in another way than PBES2 with PBKDF2")
	}
	p := k.Algorithm.Params
	d := p.Derivation.Params
	switch {
	case !k.Algorithm.ID.Equal(oidPBES2), !p.Derivation.ID.Equal(oidPBKDF2), !d.PRF.ID.Equal(oidSHA256), !p.Cipher.ID.Equal(oidAES256):
		return nil, errors.New("the approval key is not encrypted with PBKDF2-HMAC-SHA-256 and AES-256-CBC")
	case d.Iterations < minSealIterations || d.Iterations > maxSealIterations || len(d.Salt) == 0 || len(d.Salt) > maxSalt,
		len(p.Cipher.IV) != aes.BlockSize, len(k.Data) != len(seedPrefix)+ed25519.SeedSize+aes.BlockSize:
		return nil, errors.New("the approval key's file is damaged")
	}
	mode, err := k.block(passphrase)
	if err != nil {
		return nil, err
	}
	plain := make([]byte, len(k.Data))
	cipher.NewCBCDecrypter(mode, p.Cipher.IV).CryptBlocks(plain, k.Data)
	seed, ok := bytes.CutPrefix(plain, seedPrefix)
	if !ok || !bytes.Equal(seed[ed25519.SeedSize:], bytes.Repeat([]byte{aes.BlockSize}, aes.BlockSize)) {
		return nil, errors.New("the passphrase does not open the approval key")
	}
	return seed[:ed25519.SeedSize], nil
}
