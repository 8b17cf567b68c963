package treasury_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/nexus/treasury"
	"remit/proof/reason"
)

// replicas opens the store as often as it can be: twice on PostgreSQL.
func replicas(open func() *store.Store) []*store.Store {
	list := []*store.Store{open()}
	if list[0].Dialect() == "postgres" {
		list = append(list, open())
	}
	return list
}

// TestManyClientsOneEffect lets clients repeat the same command at the same
// moment, on every replica: one of them does it.
func TestManyClientsOneEffect(t *testing.T) {
	t.Parallel()
	const clients = 12
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		stores := replicas(open)
		b := books{t, stores[0]}
		payer, payee := b.open("alice", "prv_a", 1000, 1000)
		r := treasury.Reservation{TransferID: "t1", Owner: "alice", Payer: payer, Payee: payee, RunID: "run_1", JobID: "job_1", AmountMsats: 600}
		all := func(what string, do func(tx *store.Tx, client int) (bool, error)) {
			t.Helper()
			var effects, failures int
			var mu sync.Mutex
			var wg sync.WaitGroup
			for client := range clients {
				wg.Go(func() {
					var effect bool
					err := stores[client%len(stores)].Update(t.Context(), func(tx *store.Tx) (err error) { effect, err = do(tx, client); return err })
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						failures++
						if c := reason.CodeOf(err); c != reason.SettlementConflict && c != reason.Conflict {
							t.Errorf("%s: %v", what, err)
						}
					} else if effect {
						effects++
					}
				})
			}
			wg.Wait()
			if effects != 1 {
				t.Errorf("%s: %d effects and %d failures of %d clients, want one effect", what, effects, failures, clients)
			}
		}
		all("fund", func(tx *store.Tx, _ int) (bool, error) {
			_, created, err := treasury.Fund(tx, treasury.Funding{TransferID: "more", Account: payer, Amount: 5})
			return created, err
		})
		all("reserve", func(tx *store.Tx, _ int) (bool, error) {
			_, created, err := treasury.Reserve(tx, r)
			return created, err
		})
		all("reserve one job under many ids", func(tx *store.Tx, client int) (bool, error) {
			mine := r
			mine.TransferID, mine.JobID, mine.AmountMsats = fmt.Sprintf("u%d", client), "job_2", 10
			_, created, err := treasury.Reserve(tx, mine)
			return created, err
		})
		all("settle in two ways", func(tx *store.Tx, client int) (bool, error) {
			how := release
			if client%2 == 1 {
				how = withhold
			}
			_, changed, err := treasury.Resolve(tx, treasury.ReservationID("t1"), how)
			return changed, err
		})
		b.balanced()
	})
}

// TestLinearizable records what concurrent clients saw of reserve, resolve and
// reconcile on one budget, and asks porcupine for an order that explains it.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	const rounds, clients, steps, transfers, funds = 3, 6, 8, 6, 250
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		stores := replicas(open)
		b := books{t, stores[0]}
		for round := range rounds {
			owner := fmt.Sprintf("owner-%d", round)
			payer, payee := b.open(owner, fmt.Sprintf("prv-%d", round), treasury.Unlimited, funds)
			h := history{start: time.Now()}
			var wg sync.WaitGroup
			for client := range clients {
				wg.Go(func() {
					s := stores[client%len(stores)]
					random := rand.New(rand.NewPCG(uint64(round), uint64(client)))
					for range steps {
						in := ledgerInput{op: []string{"reserve", "reserve", "resolve", "resolve", "reconcile"}[random.IntN(5)],
							id: random.IntN(transfers), release: random.IntN(2) == 0}
						begin := time.Since(h.start)
						out, err := in.run(t, s, owner, payer, payee, round)
						if err != nil {
							t.Errorf("%+v: %v", in, err)
							return
						}
						h.add(client, in, out, begin)
					}
				})
			}
			wg.Wait()
			if result, _ := porcupine.CheckOperationsVerbose(ledgerModel(transfers, funds), h.operations, 5*time.Second); result != porcupine.Ok {
				t.Errorf("round %d: no order of the operations explains what the clients saw: %v\n%+v", round, result, h.operations)
			}
		}
		b.balanced()
	})
}

// TestLinearizabilityCanFail shows that the check sees a double spending.
func TestLinearizabilityCanFail(t *testing.T) {
	t.Parallel()
	made := ledgerOutput{code: "", effect: true}
	ops := []porcupine.Operation{
		{ClientId: 0, Input: ledgerInput{op: "reserve", id: 0}, Output: made, Call: 0, Return: 10},
		{ClientId: 1, Input: ledgerInput{op: "reserve", id: 0}, Output: made, Call: 5, Return: 12},
	}
	if porcupine.CheckOperations(ledgerModel(2, 1000), ops) {
		t.Error("one reservation was created twice, and the model agrees")
	}
	ops[1].Input = ledgerInput{op: "reserve", id: 1}
	if porcupine.CheckOperations(ledgerModel(2, 150), ops) {
		t.Error("two reservations of 100 fit into 150, and the model agrees")
	}
	if !porcupine.CheckOperations(ledgerModel(2, 200), ops) {
		t.Error("two reservations of 100 do not fit into 200")
	}
}

type history struct {
	start      time.Time
	mu         sync.Mutex
	operations []porcupine.Operation
}

func (h *history) add(client int, in ledgerInput, out ledgerOutput, begin time.Duration) {
	end := time.Since(h.start)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: int64(begin), Return: int64(end)})
}

const ledgerStep = 100 // what every reservation of the history is for

type ledgerInput struct {
	op      string
	id      int // of the transfer
	release bool
}

type ledgerOutput struct {
	code   reason.Code
	effect bool
	swept  uint64 // a bit for each transfer
}

// run performs the operation. A refusal commits, so that it is part of the
// state like everything else.
func (in ledgerInput) run(t *testing.T, s *store.Store, owner, payer, payee string, round int) (out ledgerOutput, err error) {
	transferID := func(i int) string { return fmt.Sprintf("r%d-%d", round, i) }
	err = s.Update(t.Context(), func(tx *store.Tx) (err error) {
		out = ledgerOutput{}
		switch in.op {
		case "reserve":
			_, out.effect, err = treasury.Reserve(tx, treasury.Reservation{TransferID: transferID(in.id), Owner: owner, Payer: payer, Payee: payee,
				RunID: "run", JobID: transferID(in.id), AmountMsats: ledgerStep})
		case "resolve":
			how := withhold
			if in.release {
				how = release
			}
			_, out.effect, err = treasury.Resolve(tx, treasury.ReservationID(transferID(in.id)), how)
		case "reconcile":
			var list []treasury.Reservation
			list, err = treasury.Reconcile(tx, tx.Now()+2*time.Hour.Milliseconds(), 0, 0)
			for _, r := range list {
				for i := range 64 {
					if r.TransferID == transferID(i) {
						out.swept |= 1 << i
					}
				}
			}
		}
		out.code = reason.CodeOf(err)
		switch out.code {
		case reason.InsufficientBudget, reason.NotFound, reason.SettlementConflict, reason.ReservationExpired:
			return nil
		}
		return err
	})
	return out, err
}

// ledgerState is a comparable picture of the books of one budget.
type ledgerState struct {
	left  int64
	state [8]byte // by transfer: 0 unknown, f refused, h held, r released, w withheld, x expired
}

// ledgerModel says what each operation may answer. A sweep may leave out what
// was reserved while it ran: it is bounded, and comes again.
func ledgerModel(transfers int, funds int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return ledgerState{left: funds} },
		Step: func(state, input, output any) (bool, any) {
			s, in, out := state.(ledgerState), input.(ledgerInput), output.(ledgerOutput)
			if in.op == "reconcile" {
				for i := range transfers {
					if out.swept&(1<<i) == 0 {
						continue
					}
					if s.state[i] != 'h' {
						return false, s
					}
					s.state[i], s.left = 'x', s.left+ledgerStep
				}
				return out.code == "", s
			}
			want := ledgerOutput{}
			at := &s.state[in.id]
			if in.op == "reserve" {
				switch {
				case *at == 0 && s.left >= ledgerStep:
					*at, s.left, want.effect = 'h', s.left-ledgerStep, true
				case *at == 0 || *at == 'f':
					*at, want.code = 'f', reason.InsufficientBudget
				}
				return out == want, s
			}
			verdict := byte('w')
			if in.release {
				verdict = 'r'
			}
			switch *at {
			case 0, 'f':
				want.code = reason.NotFound
			case 'x':
				want.code = reason.ReservationExpired
			case 'h':
				*at, want.effect = verdict, true
				if !in.release {
					s.left += ledgerStep
				}
			case verdict:
			default:
				want.code = reason.SettlementConflict
			}
			return out == want, s
		},
	}
}

// TestLockOrder crosses payers with payees in every direction, beside sweeps,
// and expects PostgreSQL to find no deadlock: a command that meets one is run
// again, which the count shows.
func TestLockOrder(t *testing.T) {
	t.Parallel()
	const clients, steps, owners = 6, 6, 3
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		stores := replicas(open)
		b := books{t, stores[0]}
		var payers, payees []string
		for i := range owners {
			payer, payee := b.open(fmt.Sprint("owner", i), fmt.Sprint("prv", i), treasury.Unlimited, 1_000_000)
			payers, payees = append(payers, payer), append(payees, payee)
		}
		var commands, runs atomic.Int64
		var wg sync.WaitGroup
		for client := range clients {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(7, uint64(client)))
				do := func(fn func(tx *store.Tx) error) {
					commands.Add(1)
					err := stores[client%len(stores)].Update(t.Context(), func(tx *store.Tx) error { runs.Add(1); return fn(tx) })
					if c := reason.CodeOf(err); err != nil && c != reason.ReservationExpired {
						t.Error(err)
					}
				}
				for step := range steps {
					owner, id := random.IntN(owners), fmt.Sprintf("%d-%d", client, step)
					payee := payees[random.IntN(owners)]
					do(func(tx *store.Tx) error {
						_, _, err := treasury.Reserve(tx, treasury.Reservation{TransferID: id, Owner: fmt.Sprint("owner", owner), Payer: payers[owner],
							Payee: payee,
							RunID: "run", JobID: id, AmountMsats: 1})
						return err
					})
					if step%3 == 2 {
						do(func(tx *store.Tx) error {
							_, err := treasury.Reconcile(tx, tx.Now()+2*time.Hour.Milliseconds(), 0, 0)
							return err
						})
						continue
					}
					do(func(tx *store.Tx) error {
						_, _, err := treasury.Resolve(tx, treasury.ReservationID(id), release)
						return err
					})
				}
			})
		}
		wg.Wait()
		if commands.Load() != runs.Load() {
			t.Errorf("%d commands ran %d times: there were deadlocks", commands.Load(), runs.Load())
		}
		b.balanced()
	})
}
