-- All credentials of a principal end together, and those that ended long ago are
-- forgotten: both without reading every token that there ever was.
CREATE INDEX token_principal ON token (principal) WHERE revoked_at = 0;
CREATE INDEX token_end ON token (expires_at) WHERE expires_at > 0;
CREATE INDEX token_revoked ON token (revoked_at) WHERE revoked_at > 0;
