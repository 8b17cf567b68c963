//test:plain-package It only computes: there is one goroutine.

package record_test

import (
	"encoding/json"
	"testing"
	"time"

	"remit/proof/canon"
	"remit/proof/record"
)

// TestBytes pins the canonical form of every payload: receipts that were given
// out have digests of exactly these bytes.
func TestBytes(t *testing.T) {
	t.Parallel()
	word, code := "why", 5
	for name, test := range map[string]struct {
		value any
		want  string
	}{
		"run":         {record.Run{RunID: "r"}, `{"issue_ref":"","owner":"","policy_bundle_id":"","repo_ref":"","run_id":"r","session_id":""}`},
		"claim":       {record.Claim{ClaimID: "c"}, `{"claim_id":"c","claim_identity":"","issue_id":"","repo_ref":""}`},
		"reservation": {record.Reservation{AmountMsats: 7}, `{"amount_msats":7,"idempotency_key":"","job_hash":"","job_id":"","payer":"","provider_id":"","reservation_id":"","scope":""}`},
		"dispatch": {record.Dispatch{Eligible: new(int64(2))}, `{"all_in_msats":0,"amount_msats":0,"attempt":0,"caps_revision":0,"eligible_providers":2,"engine":"",` +
			`"idempotency_key":"","job_hash":"","job_id":"","job_type":"","model":"","provider_id":"","reservation_id":"","tier":""}`},
		"rejection": {record.Rejection{}, `{"job_hash":"","job_type":"","reason":"","refused":[]}`},
		"refusal":   {record.Rejection{Refused: []record.Refusal{{"p", "r"}}}, `{"job_hash":"","job_type":"","reason":"","refused":[{"provider_id":"p","reason":"r"}]}`},
		"response": {record.Response{}, `{"artifacts":[],"attempt":0,"duration_ms":0,"environment":{},"job_hash":"","job_id":"","provider_id":"",` +
			`"response_sha256":"","runs":[],"status":""}`},
		"failed response": {record.Response{Reason: &word}, `{"artifacts":[],"attempt":0,"duration_ms":0,"environment":{},"job_hash":"","job_id":"","provider_id":"",` +
			`"reason":"why","response_sha256":"","runs":[],"status":""}`},
		"ended": {record.Ending{JobType: new(""), State: new("failed")}, `{"artifacts":[],"attempt":0,"job_hash":"","job_id":"","job_type":"","provider_id":"",` +
			`"reason":"","state":"failed","was":""}`},
		"lost":     {record.Ending{ResponseSHA256: new("")}, `{"artifacts":[],"attempt":0,"job_hash":"","job_id":"","provider_id":"","reason":"","response_sha256":"","was":""}`},
		"fallback": {record.Fallback{From: "a", To: "b"}, `{"attempt":0,"from":"a","job_hash":"","job_id":"","reason":"","to":"b"}`},
		"approval": {record.ApprovalUse{Scope: []string{"src/**"}}, `{"actor":"","approval_id":"","contract_sha256":"","expires_at":"","mutation_mode":"","repo_ref":"",` +
			`"risk_class":"","scope":["src/**"],"task_id":""}`},
		"used approval": {record.ApprovalUse{Reason: word, RunID: "r"}, `{"actor":"","approval_id":"","contract_sha256":"","expires_at":"","mutation_mode":"","reason":"why",` +
			`"repo_ref":"","risk_class":"","run_id":"r","scope":[],"task_id":""}`},
		"payment": {record.Payment{Rail: record.Rail}, `{"amount_msats":0,"asset_id":"","job_hash":"","job_id":"","provider_id":"","rail":"remit_ledger","reason":"",` +
			`"reservation_id":"","reserved_msats":0,"resolution_id":"","settlement_route":"","verification_receipt_sha256":""}`},
		"payment event": {record.PaymentLine{JobID: "j", Status: record.Withheld, Proof: record.PaymentProof{Type: record.Withheld, Reason: &word, ExitCode: &code}},
			`{"amount_msats":0,"asset_id":"","job_hash":"","job_id":"j","payment_proof":{"exit_code":5,"provider_id":"","reason":"why","reservation_id":"",` +
				`"type":"withheld","value":""},"rail":"","status":"withheld"}`},
		"payment in RECEIPT.json": {record.PaymentLine{Proof: record.PaymentProof{ReceiptSHA256: "s"}}, `{"amount_msats":0,"asset_id":"","job_hash":"","payment_proof":` +
			`{"provider_id":"","receipt_sha256":"s","reservation_id":"","type":"","value":""},"rail":"","status":""}`},
		"verdict": {record.Verdict{Violations: []record.Violation{{Code: "c", Provider: true}}}, `{"exit_code":0,"job_hash":"","job_id":"","outcome":"","provider_id":"",` +
			`"reason":"","response_sha256":"","verifier":"","violations":[{"code":"c","detail":"","provider":true}]}`},
		"settlement": {record.Settlement{Executed: record.ExecutedHere}, `{"executed":"here","job_hash":"","job_id":"","passed":false,"provider_id":"","reason":"",` +
			`"reservation_id":"","reserved_msats":0,"run_id":"","settled_msats":0,"status":"","verification_receipt_sha256":""}`},
		"export": {record.Export{Branch: "b"}, `{"branch":"b","commit":"","pr_ref":""}`},
	} {
		got, err := canon.Marshal(test.value)
		if err != nil || string(got) != test.want {
			t.Errorf("%s: %s, %v\nwant %s", name, got, err, test.want)
		}
	}
}

// TestReceiptDigest pins the digest of a receipt, and finds each change of it,
// as the authority gave it and as a journal has it.
func TestReceiptDigest(t *testing.T) {
	t.Parallel()
	r, err := record.NewReceipt(record.PaymentReleased, "user:1", "k", record.Payment{Rail: record.Rail, AmountMsats: 700})
	if err != nil {
		t.Fatal(err)
	}
	if want := canon.Digest([]byte(`{"idempotency_key":"k","payload":` + string(r.Payload) + `,"principal":"user:1","receipt_type":"PaymentReleased"}`)); r.SHA256 != want {
		t.Errorf("digest %s, want %s", r.SHA256, want)
	}
	entry := record.Recorded{Receipt: r, RecordedAt: time.Unix(0, 0)}.Entry()
	line, paid := entry.Payment()
	if !r.Sealed() || !entry.Sealed() || entry.RecordedAt != "1970-01-01T00:00:00.000Z" || !paid || line.Status != record.Released || line.AmountMsats != 700 {
		t.Errorf("%+v %+v %+v", r, entry, line)
	}
	for name, change := range map[string]func(*record.Receipt){
		"type":      func(r *record.Receipt) { r.Type = record.PaymentWithheld },
		"payload":   func(r *record.Receipt) { r.Payload = json.RawMessage(`{"amount_msats":701}`) },
		"no JSON":   func(r *record.Receipt) { r.Payload = json.RawMessage(`{`) },
		"principal": func(r *record.Receipt) { r.Principal = "user:2" },
		"key":       func(r *record.Receipt) { r.Key = "l" },
		"digest":    func(r *record.Receipt) { r.SHA256 = canon.Digest(nil) },
	} {
		forged := r
		change(&forged)
		if forged.Sealed() || (record.Recorded{Receipt: forged}).Entry().Sealed() {
			t.Errorf("a receipt with another %s is sealed", name)
		}
	}
}
