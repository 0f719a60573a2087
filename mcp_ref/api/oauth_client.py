"""The OAuth client of one URL: it gets tokens, keeps them, and gets new ones when they are not enough.

    before a request   `headers`    the token, renewed if it is about to expire
    401                `refused`    discovery (authorization_server_discovery)
                                    -> the refresh token, if there is one (index/refresh_tokens)
                                    -> else a grant of an extension, or registration (client_registration),
                                       the person (api/user_agents), the token request (api/token_flow)
    403                `refused`    the same with more scopes, a few times (index/error_handling)

Each 401 starts with discovery again: if the MCP server has changed its authorization server, nothing of the
old one is sent to the new one. Tokens are sent only to the origin of the URL.

Revisions   2025-03-26  the MCP server is its own authorization server; so is, in any revision, a server
                        without protected resource metadata
            2025-06-18 and later, as the pages say
Errors      AuthorizationError: which step failed, where, and what can be done.
Threads     any number of threads ask one OAuthClient. `_turn` is held by the one that gets tokens; the others
            wait for it, and go on with what it got: a hundred threads that find the token expired cause one
            refresh. If it got none, they are given its error: a person who refuses once has refused all the
            hundred requests, and is asked again only by a request that is made later. The store's lock keeps
            processes from refreshing at the same time. While a person is asked, the deadlines of requests
            stand still, also of those that wait. `_tokens` is replaced as a whole, so reading needs no lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests

from mcp_ref.api.discovering import Discovery, Found
from mcp_ref.api.token_flow import USE_NONCE, Flow
from mcp_ref.api.token_stores import KeptTokens
from mcp_ref.api.user_agents import user_agent_of
from mcp_ref.basic.authorization.index.access_tokens import authorization_header
from mcp_ref.basic.authorization.index.authorization_flow import (
    AuthorizationRequest,
    Tokens,
    canonical_uri,
)
from mcp_ref.basic.authorization.index.error_handling import (
    INSUFFICIENT_SCOPE,
    AuthorizationError,
    Challenge,
    StepUps,
    choose,
    parse_challenges,
)
from mcp_ref.basic.authorization.index.refresh_tokens import (
    is_due,
    refresh_form,
    renewed,
    with_offline_access,
)
from mcp_ref.basic.authorization.index.scope_selection import scopes_of, select_scopes, union
from mcp_ref.basic.authorization.security_considerations import (
    check_page,
    check_pkce_support,
    check_redirect_uri,
)
from mcp_ref.runtime.http_client.authorizing import Refusal
from mcp_ref.runtime.http_client.fetching import MAX_FETCH_SECONDS
from mcp_ref.runtime.jose import JoseError, Key, load_key, new_key, sign
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.deadlines import Deadline
from mcp_ref.runtime.untrusted_text import one_line

if TYPE_CHECKING:
    from mcp_ref.api.authorization import OAuth
    from mcp_ref.extensions.dpop import Proofs

__all__ = ["OAuthClient"]

_log = logger("mcp_ref.authorization")

PAUSE_SECONDS = 15.0
"""Seconds between two attempts to renew a token before it is refused: each may take as long as a fetch."""
TEMPORARY = ("server_error", "temporarily_unavailable")
"""Errors that do not mean that the refresh token is invalid."""
MAX_ROUNDS = 40
"""How many failed rounds are remembered; the oldest is forgotten first."""
LOST_CLIENT = ("invalid_client", "unauthorized_client")
"""Errors of a token endpoint that does not know the client any more."""


class _Turn:
    """The lock of the thread that gets tokens, and the errors of the last rounds that failed.

    A round is all that one thread does after a refusal. Threads with the same refusal wait for it.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._failed: dict[Hashable, tuple[float, AuthorizationError]] = {}  # guarded by lock

    @contextmanager
    def round(self, what: Hashable, began: float) -> Iterator[None]:
        """Around one round: `what` was refused to a request that began at `began` (monotonic).

        With the lock held. If a round for the same failed after this request began, raises the
        AuthorizationError of that: a round of its own would ask the same person again.
        """
        ended, problem = self._failed.get(what, (began, None))
        if problem is not None and began <= ended:
            raise _copy(problem)
        try:
            yield
        except AuthorizationError as problem:
            self._failed.pop(what, None)
            self._failed[what] = time.monotonic(), _copy(problem)
            if len(self._failed) > MAX_ROUNDS:
                del self._failed[next(iter(self._failed))]
            raise


def _copy(problem: AuthorizationError) -> AuthorizationError:
    """The same error without its traceback, which would keep the objects in its frames alive."""
    return AuthorizationError(str(problem), error=problem.error, issuer=problem.issuer)


class OAuthClient:
    """The authorizer of one URL (runtime/http_client/authorizing)."""

    def __init__(self, oauth: OAuth, url: str, session: requests.Session | None = None) -> None:
        """Only the certificates and proxies of the `session` are used."""
        self.oauth = oauth
        self.url = url
        self.discovery = Discovery(oauth, url, session)
        self.place = self.discovery.place
        client = oauth.client_id or oauth.client_metadata_url
        self._kept = KeptTokens(oauth.store, self.place, client, "DPoP" if oauth.dpop else "Bearer")
        self._turn = _Turn()
        self._tokens: Tokens | None = None  # replaced with _turn held
        # How the tokens were obtained ("store", "refresh", "grant", "person"); "" once they were accepted.
        self._way = "store"
        self._found: Found | None = None  # guarded by _turn
        self._steps = StepUps()  # guarded by _turn
        self._is_loaded = False
        self._is_stopped = False
        self._person: Any = None  # the user agent, while a person is asked
        self._renew_after = 0.0  # monotonic: the next early renewal, after one that failed
        self.proofs: Proofs | None = None

    def __repr__(self) -> str:
        return f"<OAuthClient of {self.place}>"

    # -- what an exchange asks ---------------------------------------------------------------------------

    def headers(self, method: str, url: str) -> dict[str, str]:
        """The headers with the token; {} without a token, or if the URL has another origin than the server.

        Raises AuthorizationError, StoreError.

        # spec: basic/authorization/index/foreign-token-not-sent
        """
        if not self._is_loaded:
            with self._turned():
                self._load()
        tokens = self._tokens
        if tokens is not None and self._is_to_be_renewed(tokens):
            tokens = self._renew_early(tokens)
        if tokens is None or _origin(url) != _origin(self.url):
            return {}
        return self._headers_of(tokens, method, url)

    def _is_to_be_renewed(self, tokens: Tokens) -> bool:
        """Whether to renew the tokens early; not while a person is asked, or soon after a failed attempt."""
        if self._is_stopped or self._person is not None or time.monotonic() < self._renew_after:
            return False
        return is_due(tokens, time.time())

    def _headers_of(self, tokens: Tokens, method: str, url: str) -> dict[str, str]:
        right = authorization_header(tokens.access_token, tokens.token_type)
        if tokens.token_type == "DPoP" and self.proofs is not None:
            right["DPoP"] = self.proofs.proof(method, url, access_token=tokens.access_token)
        return right

    def refused(self, refusal: Refusal, deadline: Deadline) -> bool:
        """Get other tokens after a 401 or 403. True if the request is worth sending again with new headers.

        Raises AuthorizationError.
        """
        challenges = parse_challenges(refusal.challenge)
        challenge = choose(challenges)
        if challenges and challenge is None:  # the server wants something other than tokens
            return False
        with self._turned(deadline):
            if self._is_stopped:
                return False
            if refusal.status == 403:
                return self._is_to_step_up(refusal, challenge, deadline)
            return self._is_renewed(refusal, challenge, deadline)

    def accepted(self, nonce: str | None) -> None:
        """The server accepted the tokens: if it refuses them later, they may be refreshed again."""
        self._way = ""
        if nonce is not None and self.proofs is not None:
            self.proofs.keep_nonce(self.url, nonce, of_resource=True)

    @property
    def issuer(self) -> str | None:
        """The authorization server whose tokens are sent; None without tokens."""
        return None if self._tokens is None else self._tokens.issuer

    def forget(self) -> bool:
        """Forget the tokens, also in the store. True if there were any."""
        with self._turned():
            self._tokens, self._is_loaded = None, True
            return self._kept.forget()

    def stop(self) -> None:
        """Send no more requests, and end the wait for a person."""
        self._is_stopped = True
        self.discovery.stop()
        with suppress(AttributeError):  # no person is asked, or the application's user agent has no `stop`
            self._person.stop()

    # -- 401 ---------------------------------------------------------------------------------------------

    def _is_renewed(self, refusal: Refusal, challenge: Challenge | None, deadline: Deadline) -> bool:
        """After a 401: get other tokens. True, or AuthorizationError. With _turn held."""
        if self._has_new_nonce(refusal, challenge) or self._has_others(refusal):
            return True
        with self._turn.round(refusal.sent.get("Authorization"), deadline.began):
            self._renew(refusal, challenge, deadline)
        return True

    def _renew(self, refusal: Refusal, challenge: Challenge | None, deadline: Deadline) -> None:
        """Replace the refused tokens: refresh them if the authorization server is the same, else get new."""
        found = self._discover(challenge, refusal.peer)
        scopes = self._initial_scopes(found, challenge)
        before = self._tokens
        if before is not None and (before.issuer, before.resource) == found.names:
            if self._is_renewed_at(found, before, challenge):
                return
            scopes = scopes and union(before.requested or (), scopes)
        self._obtain(found, scopes, deadline)

    def _is_renewed_at(self, found: Found, before: Tokens, challenge: Challenge | None) -> bool:
        """Refresh tokens at the server that issued them; True if that worked.

        Raises AuthorizationError for tokens that were just issued, and refused at once.
        """
        if self._way in ("person", "grant"):
            raise found.error(
                f"{self.place} refuses the token that was just issued for it{_said_in(challenge)}"
            )
        return self._way != "refresh" and self._refresh(found, before)

    def _initial_scopes(self, found: Found, challenge: Challenge | None) -> tuple[str, ...] | None:
        needed = challenge.scopes if challenge else None
        return select_scopes(needed, found.resource.scopes, scopes_of(self.oauth.scopes))

    def _has_new_nonce(self, refusal: Refusal, challenge: Challenge | None) -> bool:
        """Whether only a nonce for the DPoP proof was missing, which came with the refusal."""
        if self.proofs is None or refusal.nonce is None:
            return False
        is_new = self.proofs.keep_nonce(self.url, refusal.nonce, of_resource=True)
        return is_new and challenge is not None and challenge.error == USE_NONCE

    def _has_others(self, refusal: Refusal) -> bool:
        """Whether another thread or process has got other tokens since this request was sent."""
        if self._tokens is None:
            return False
        if refusal.sent.get("Authorization") != f"{self._tokens.token_type} {self._tokens.access_token}":
            return True
        return self._adopt(self._kept.newer(self._tokens))

    def _adopt(self, tokens: Tokens | None) -> bool:
        """Use these tokens from now on; False if they are None."""
        if tokens is None:
            return False
        self._tokens, self._way = tokens, "store"
        return True

    def _discover(self, challenge: Challenge | None, peer: str | None) -> Found:
        """Find the authorization server, from the start of discovery."""
        known = self._kept.server()
        self._found = self.discovery.find(challenge, peer, known.get("issuer"))
        self._make_proofs(known)
        return self._found

    # -- 403 ---------------------------------------------------------------------------------------------

    def _is_to_step_up(self, refusal: Refusal, challenge: Challenge | None, deadline: Deadline) -> bool:
        """After a 403: get tokens with more scopes. False if the 403 is final. With _turn held.

        # spec: basic/authorization/index/step-up-consults-strategy
        """
        if challenge is None or challenge.error != INSUFFICIENT_SCOPE:
            return False
        if self._has_others(refusal) and set(challenge.scopes or ()) <= set(self._granted()):
            return True
        needed = frozenset(challenge.scopes or ())
        with self._turn.round((refusal.sent.get("Authorization"), needed), deadline.began):
            found = self._found or self._discover(challenge, refusal.peer)
            scopes = self._steps.next(self._requested(found), challenge)
            if scopes is None:
                return False
            self._obtain(found, scopes, deadline)
        return True

    def _requested(self, found: Found) -> tuple[str, ...]:
        """The scopes that were requested last; without tokens, those that would be requested first."""
        if self._tokens is None:
            return self._initial_scopes(found, None) or ()
        return self._tokens.requested or self._granted()

    def _granted(self) -> tuple[str, ...]:
        """The scopes of the present tokens."""
        return () if self._tokens is None else self._tokens.scopes or ()

    # -- renewal -----------------------------------------------------------------------------------------

    def _renew_early(self, due: Tokens) -> Tokens:
        """Renew tokens before a server refuses them. Returns the new ones, or the old ones if that fails."""
        with self._turned():
            now = self._tokens
            if now is not due or now is None or self._is_stopped:
                return now or due
            try:
                found = self._found
                if found is None or (now.issuer, now.resource) != found.names:
                    return now  # nothing was discovered for these tokens yet: that is done after a 401
                if self.oauth.grant is not None:
                    self._obtain(found, now.requested, None)
                else:
                    self._refresh(found, now)
            except AuthorizationError as problem:
                _log.info("no new token before the old one ends: %.300s", problem)
                self._renew_after = time.monotonic() + PAUSE_SECONDS
            return self._tokens or due

    def _refresh(self, found: Found, before: Tokens) -> bool:
        """Use the refresh token, if there is one. True if there are new tokens. With _turn held.

        The store's lock is held until the new tokens are stored: another process that waits for it finds them
        there (`newer`), and does not refresh as well.
        """
        if self.oauth.grant is not None:
            return False
        with self._kept.lock(before):
            if self._adopt(self._kept.newer(before)):
                return True
            before = self._kept.latest(before)
            if before.refresh_token is None:
                return False
            flow = Flow(self, found, before.requested)
            try:
                tokens = renewed(before, flow.request(refresh_form(before), client=flow.known_client()))
            except AuthorizationError as problem:
                if problem.error is None or problem.error in TEMPORARY:
                    raise
                _log.info("the refresh token is no good: %.300s", problem)
                self._tokens = self._kept.forget_refresh(before)
                if problem.error in LOST_CLIENT:
                    self.oauth.store.delete(f"client {found.issuer}")
                return False
            self._keep(found, tokens, "refresh")
        return True

    # -- new tokens --------------------------------------------------------------------------------------

    def _obtain(self, found: Found, scopes: tuple[str, ...] | None, deadline: Deadline | None) -> None:
        """Get tokens by the grant, or by a person. With _turn held."""
        grant = self.oauth.grant
        if grant is not None:
            flow = Flow(self, found, scopes)
            self._keep(found, grant.fetch(flow), "grant")
            return
        if self.oauth.offline_access:
            scopes = with_offline_access(scopes, found.metadata)
        self._keep(found, self._ask_person(found, scopes, deadline), "person")

    def _ask_person(self, found: Found, scopes: tuple[str, ...] | None, deadline: Deadline | None) -> Tokens:
        """Have a person authorize this client, from the authorization request to the tokens.

        # spec: basic/authorization/security-considerations/oauth-best-practice
        # spec: basic/authorization/index/oauth21-implementations, basic/authorization/index/security-followed
        """
        endpoint = found.metadata.get("authorization_endpoint")
        agent = user_agent_of(self.oauth.user_agent)
        try:
            check_pkce_support(found.metadata)
            self.discovery.fetcher.check(str(endpoint))
        except ValueError as problem:
            raise found.error(f"no person is sent there: {problem}") from None
        with agent as opened:
            person = agent if opened is None else opened
            flow = Flow(self, found, scopes, _checked(person.redirect_uri))
            request = AuthorizationRequest(
                issuer=found.issuer,
                endpoint=str(endpoint),
                client_id=flow.client.client_id,
                redirect_uri=flow.redirect_uri,
                resource=found.resource.resource,
                scopes=scopes,
                names_issuer=found.metadata.get("authorization_response_iss_parameter_supported") is True,
            )
            callback = self._authorized(
                person, check_page(request.url, allow_http=self.oauth.allow_http), deadline
            )
        return flow.request(request.token_form(request.code_of(callback)))

    def _authorized(self, person: Any, url: str, deadline: Deadline | None) -> str:
        """The URL of the authorization response. The deadline stands still while the person decides."""
        self._person = person
        try:
            with nullcontext() if deadline is None else deadline.hold():
                return str(person.authorize(url, self.oauth.timeout))
        except AuthorizationError:
            raise
        except Exception as problem:  # its text may have the code in it
            kind = type(problem).__name__
            raise AuthorizationError(f"the user agent failed, and nothing was granted: {kind}") from problem
        finally:
            self._person = None

    # -- what is kept ------------------------------------------------------------------------------------

    @contextmanager
    def _turned(self, deadline: Deadline | None = None) -> Iterator[None]:
        """Hold the lock of `_turn`. The deadline stands still while this waits: a person may be asked."""
        if not self._turn.lock.acquire(blocking=False):
            if deadline is None:
                is_here = self._turn.lock.acquire(timeout=2 * MAX_FETCH_SECONDS)
            else:
                with deadline.hold():
                    is_here = self._turn.lock.acquire(timeout=self.oauth.timeout + 2 * MAX_FETCH_SECONDS)
            if not is_here:
                raise AuthorizationError(f"authorization for {self.place}: another thread is still at it")
        try:
            yield
        finally:
            self._turn.lock.release()

    def _load(self) -> None:
        """Load the tokens from the store, the first time. With _turn held."""
        if not self._is_loaded:
            tokens = self._kept.last()
            # Tokens that are bound to a key cannot be used if the key is lost.
            is_good = tokens is None or self._make_proofs(self._kept.server())
            self._tokens = tokens if is_good else None
        self._is_loaded = True

    def _keep(self, found: Found, tokens: Tokens, way: str) -> None:
        """Store these tokens, and send them from now on. With _turn held."""
        wanted = "DPoP" if self.oauth.dpop else "Bearer"
        if tokens.token_type != wanted:
            raise found.error(f"it issued a token of the type {tokens.token_type}, and not {wanted}")
        self._kept.keep(tokens, None if self.proofs is None else self.proofs.key.private_jwk())
        self._tokens, self._way = tokens, way

    def _make_proofs(self, known: Mapping[str, Any]) -> bool:
        """Make `proofs`, with the stored key or else a new one. False if it is new: no tokens have it."""
        if not self.oauth.dpop or self.proofs is not None:
            return True
        from mcp_ref.extensions.dpop import Proofs  # imported here for start-up time: few need it

        algorithm, jwk = self.oauth.signing_algorithm, known.get("dpop_key")
        key = None if jwk is None else _key_of(jwk, algorithm)
        if jwk is not None and key is None:
            self._kept.tell_damage(f"the key for DPoP ({algorithm})")
        self.proofs = Proofs(key or new_key(algorithm), algorithm)
        return key is not None


def _key_of(jwk: Any, algorithm: str) -> Key | None:
    """A key from a store; None if it cannot sign with this algorithm."""
    try:
        key = load_key(jwk) if isinstance(jwk, Mapping) else None
        if key is not None:
            sign({}, key, algorithm=algorithm)
    except JoseError:
        return None
    return key


def _checked(redirect_uri: str) -> str:
    """The redirect URI of a user agent, if it is allowed. Raises AuthorizationError."""
    try:
        return check_redirect_uri(redirect_uri)
    except ValueError as problem:
        raise AuthorizationError(f"the user agent cannot be used: {problem}") from None


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(canonical_uri(url))
    return parts.scheme, parts.netloc


def _said_in(challenge: Challenge | None) -> str:
    """What a challenge says of the refusal, short and on one line; "" if it says nothing."""
    said = None if challenge is None else challenge.params.get("error_description") or challenge.error
    return "" if said is None else f": {one_line(said[:300])}"
