/** Calls of a node: users, roles and logins. They need `admin` on `$access/users`. */

import { Operation } from "./operation.js";

/** A user of the file. */
export interface User {
  by: "password" | "certificate" | "token";
  disabled: boolean;
  last_login: string | null;
  roles: string[];
  user: string;
}

/** A role with its rules. */
export interface Role {
  built_in: boolean;
  role: string;
  rules: string[];
}

/** What one rule says of a right. */
export interface WhyRule {
  is: "other verb" | "other topic" | "allows" | "denies" | "allows some" | "denies some";
  role: string;
  rule: string;
}

/** Whether a user has a right, and which rules decide. */
export interface Why {
  allowed: boolean;
  conclusion: string;
  disabled: boolean;
  reach: "all" | "some" | "nothing";
  right: "read" | "publish" | "command" | "acknowledge" | "admin";
  roles: string[];
  rules: WhyRule[];
  topic: string;
  user: string;
}

/** A login at the console or of the command line. */
export interface Login {
  by: "password" | "provider";
  expires: string;
  last_used: string;
  own: boolean;
  user: string;
}

interface Changed {
  user: User;
}

/** Users, roles and logins of a node. */
export class Access extends Operation {
  /** Users of the file, sorted by name. */
  users(): AsyncGenerator<User> {
    return this.pages("/v1/access/users", "users");
  }

  /** Adds a user; ends when the change holds. `Refused` with the status 409 if there is one of this name. */
  async addUser(user: string, roles: string[], options: { password?: string } = {}): Promise<User> {
    return (await this.connection.change<Changed>("/v1/access/users", { user, roles, ...options })).user;
  }

  /** Gives a user other roles. */
  async setRoles(user: string, roles: string[]): Promise<User> {
    return (await this.connection.change<Changed>("/v1/access/users/roles", { user, roles })).user;
  }

  /** Gives a user another password; its sessions and logins end. */
  async setPassword(user: string, password: string): Promise<User> {
    return (await this.connection.change<Changed>("/v1/access/users/password", { user, password })).user;
  }

  /** Disables a user; its sessions and logins end. */
  async disableUser(user: string): Promise<User> {
    return (await this.connection.change<Changed>("/v1/access/users/disable", { user })).user;
  }

  /** Enables a user again. */
  async enableUser(user: string): Promise<User> {
    return (await this.connection.change<Changed>("/v1/access/users/enable", { user })).user;
  }

  /** Removes a user; its sessions and logins end. */
  async removeUser(user: string): Promise<void> {
    await this.connection.change("/v1/access/users/remove", { user });
  }

  /** Roles with their rules. */
  async roles(): Promise<Role[]> {
    return (await this.connection.get<{ roles: Role[] }>("/v1/access/roles")).roles;
  }

  /** Whether a user has a right on a topic or a filter, and which rules decide; `client`: with this MQTT client identifier. */
  why(user: string, right: Why["right"], topic: string, options: { client?: string } = {}): Promise<Why> {
    return this.connection.get("/v1/access/why", { user, right, topic, ...options });
  }

  /** Logins at the console and of the command line. */
  async logins(user?: string, options: { limit?: number } = {}): Promise<Login[]> {
    return (await this.connection.get<{ logins: Login[] }>("/v1/logins", { user, ...options })).logins;
  }

  /** Ends the logins of a user; how many. */
  async endLogins(user: string): Promise<number> {
    return (await this.connection.change<{ ended: number }>("/v1/logins/end", { user })).ended;
  }

  /** Ends the logins of the caller, except the one that this request uses; how many. */
  async endOtherLogins(): Promise<number> {
    return (await this.connection.change<{ ended: number }>("/v1/logins/end-others")).ended;
  }
}
