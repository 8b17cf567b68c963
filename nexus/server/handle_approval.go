package server

import (
	"errors"
	"net/http"

	"remit/nexus/api"
	"remit/nexus/approval"
	"remit/nexus/store"
)

func requestApproval(tx *store.Tx, r *request) (answer, error) {
	var body api.ApprovalRequest
	if err := r.json(&body); err != nil {
		return answer{}, err
	}
	if err := agree(r, body.Owner); err != nil {
		return answer{}, err
	}
	ttl, err := seconds(body.TTLSeconds)
	if body.TTLSeconds != nil {
		err = within("ttl_seconds", body.TTLSeconds, int64(approval.MinTTL.Seconds()), int64(approval.MaxTTL.Seconds()))
	}
	if err != nil {
		return answer{}, err
	}
	a, created, err := approval.Request(tx, r.caller.Principal, approval.Asked{Contract: body.Contract, RepoRef: body.RepoRef, TTL: ttl})
	if err != nil {
		return answer{}, err
	}
	out := approvalAnswer(a)
	out.location = "/v1/approvals/" + a.ID
	if created {
		out.status = http.StatusCreated
	}
	return out, nil
}

func listApprovals(tx *store.Tx, r *request) (answer, error) {
	p, err := pageOf(r)
	if err != nil {
		return answer{}, err
	}
	owner, err := ownerOf(r)
	if err != nil {
		return answer{}, err
	}
	f := store.ApprovalFilter{Before: p.after, Limit: p.limit, ContractSHA256: r.URL.Query().Get("contract_sha256"), Status: r.URL.Query().Get("status")}
	if err := short("contract_sha256", &f.ContractSHA256, maxID); err != nil {
		return answer{}, err
	}
	if f.Status != "" && !api.ApprovalStatus(f.Status).Valid() {
		return answer{}, invalid("status", "is %.32q, which no approval is", f.Status)
	}
	list, err := approval.List(tx, r.caller.Principal, owner, f)
	if err != nil {
		return answer{}, err
	}
	out := api.ApprovalPage{Items: []api.Approval{}, NextCursor: p.next(len(list), func() string { return list[len(list)-1].ID })}
	for _, a := range list {
		out.Items = append(out.Items, approvalOf(a))
	}
	return answer{status: http.StatusOK, value: out}, nil
}

func getApproval(tx *store.Tx, r *request) (answer, error) {
	a, err := approval.Find(tx, r.caller.Principal, r.PathValue("approval_id"))
	if err != nil {
		return answer{}, err
	}
	return approvalAnswer(a), nil
}

func decideApproval(tx *store.Tx, r *request) (answer, error) {
	var body api.ApprovalDecision
	if err := r.json(&body); err != nil {
		return answer{}, err
	}
	a, err := approval.Decide(tx, r.caller.Principal, r.PathValue("approval_id"),
		approval.Decision{Status: string(body.Decision), Reason: api.Value(body.Reason)})
	if err != nil {
		return answer{}, err
	}
	return approvalAnswer(a), nil
}

func consumeApproval(tx *store.Tx, r *request) (answer, error) {
	var body api.ApprovalUse
	if err := r.json(&body); err != nil {
		return answer{}, err
	}
	if err := errors.Join(short("run_id", &body.RunID, maxID), short("contract_sha256", &body.ContractSha256, maxID)); err != nil {
		return answer{}, err
	}
	a, err := approval.Consume(tx, r.caller.Principal, r.PathValue("approval_id"),
		approval.Use{RunID: body.RunID, ContractSHA256: body.ContractSha256})
	if err != nil {
		return answer{}, err
	}
	return approvalAnswer(a), nil
}

func approvalAnswer(a approval.Approval) answer {
	return answer{status: http.StatusOK, value: approvalOf(a)}
}

func approvalOf(a approval.Approval) api.Approval {
	out := api.Approval{
		ApprovalID: a.ID, Owner: a.Owner, ContractSha256: a.ContractSHA256, RepoRef: a.RepoRef, Status: api.ApprovalStatus(a.Status),
		RequestedBy: a.RequestedBy, RequestedAt: api.TimeOf(a.RequestedAt), ExpiresAt: api.TimeOf(a.ExpiresAt),
		DecidedBy: api.Optional(a.DecidedBy), DecidedAt: api.OptionalTime(a.DecidedAt), Reason: api.Optional(a.Reason),
		RunID: api.Optional(a.RunID), ConsumedAt: api.OptionalTime(a.ConsumedAt),
	}
	if a.Contract != nil {
		document := api.JobDocument(a.ApprovalRow.Contract)
		out.Contract = &document
	}
	return out
}
